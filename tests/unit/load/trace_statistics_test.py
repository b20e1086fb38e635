#!/usr/bin/env python3
"""load/trace_statistics.py on traces whose figures are known."""
import json
import math
import pathlib
import sys
import tempfile

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "load"))
import trace_statistics as statistics

HEADER = {"format": "troupe-trace 1", "trace": "mine", "window": "a batch", "layers": [1, 3]}


def read(*lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        file.flush()
        try:
            return statistics.read_trace(file.name)
        except ValueError as error:
            return str(error).removeprefix(file.name)


def array(*rows):
    return numpy.array(rows, float)


def test_read_trace():
    window = {"rows": [[1, 3], [2, 2]], "domain": "a", "tokens": 2, "anything": None}
    trace = read(HEADER, window, {**window, "domain": "b"}, {**window, "rows": [[4, 0], [0, 4]]})
    assert (trace.name, trace.window, trace.layers) == ("mine", "a batch", [1, 3])
    assert list(trace.domains) == ["a", "b"]
    assert trace.domains["a"].rows[0].tolist() == [[1, 3], [4, 0]]
    assert trace.domains["a"].rows[1].tolist() == [[2, 2], [0, 4]]
    assert trace.domains["b"].tokens.tolist() == [2]
    # Like the output of tests/bench/record_activations.py: tokens follow from the rows.
    bare = read({"format": "troupe-trace 1", "trace": "code", "batch": 8, "tokens": 32, "top_k": 2}, {"rows": [[1, 3]]})
    assert list(bare.domains) == ["code"] and bare.domains["code"].tokens.tolist() == [2]
    assert bare.window == "8 requests of 32 tokens" and bare.layers == [0]


def test_refusals():
    window = {"rows": [[1, 3], [2, 2]]}
    assert read("") == ":1: no JSON object"
    assert read({**HEADER, "format": "troupe-trace 2"}, window) == ":1: 'format' is not 'troupe-trace 1'"
    assert read(HEADER) == ": no window has any rows"
    assert read(HEADER, window, "[]") == ":3: no JSON object"
    assert read(HEADER, {"rows": [[1], []]}) == ":2: 'rows' is no list of the rows of each layer's experts"
    assert read(HEADER, window, {"rows": [[1, 3, 0], [2, 2]]}) == ":3: 'rows' has another shape than before"
    one = read(HEADER, window)
    for wrong, text in ((one, "domain mine comes twice"), (read({**HEADER, "trace": "other"}, {"rows": [[1, 3]]}),
                                                           "domain other is of a model of another shape")):
        try:
            statistics.joined([one, wrong])
        except ValueError as error:
            assert str(error) == text, error
        else:
            raise AssertionError(text)


def test_sparsity():
    rows = array([4, 0, 0, 0], [1, 1, 1, 1])
    assert statistics.idle_share(rows) == 3 / 8
    assert statistics.popularity(rows).tolist() == [5 / 8, 1 / 8, 1 / 8, 1 / 8]
    # One token of the first window leaves three of four idle; of the second each is idle with 3/4.
    tokens = array(4, 4)
    assert statistics.expected_idle_share(rows, tokens, 1) == (3 / 4 + 3 / 4) / 2
    assert statistics.expected_idle_share(rows, tokens, 2) == (3 / 4 + 9 / 16) / 2


def test_locality():
    rows = array([9, 1, 0, 0], [8, 2, 0, 0], [0, 0, 9, 1], [0, 0, 8, 2])
    assert statistics.hot_experts(rows).tolist() == [[True, False, False, False]] * 2 + [[False, False, True, False]] * 2
    assert statistics.hot_stays(rows, 1) == 2 / 3
    assert statistics.hot_stays(rows, 2) == 0
    assert math.isnan(statistics.hot_stays(rows, 4))
    assert statistics.hot_experts(rows, share=0.5)[0].tolist() == [True, True, False, False]


def test_correlation():
    # The first two rise and fall together, the third against them; the fourth's share never changes.
    rows = array([1, 1, 4, 2], [2, 2, 2, 2], [1, 1, 4, 2], [2, 2, 2, 2])
    matrix = statistics.correlation(rows)
    assert numpy.allclose(matrix, [[1, 1, -1, 0], [1, 1, -1, 0], [-1, -1, 1, 0], [0, 0, 0, 1]]), matrix
    assert len(statistics.off_diagonal(matrix)) == 12


def test_domains():
    assert statistics.difference(array([1, 3], [1, 3]), array([2, 6])) == 0
    assert statistics.difference(array([4, 0]), array([0, 1])) == 1
    assert statistics.difference(array([3, 1]), array([1, 3])) == 0.5
    assert math.isnan(statistics.difference(*statistics.halves(array([1, 3]))))
    first, second = statistics.halves(array([1, 0], [0, 1], [2, 0]))
    assert (first.tolist(), second.tolist()) == ([[1, 0], [2, 0]], [[0, 1]])


def test_capacity():
    rows, tokens = array([6, 2, 0, 0], [2, 2, 2, 2]), array(4, 4)  # top-2 of four experts
    assert statistics.even_capacity(rows, tokens) == 0.5
    even = statistics.static_capacity(rows, tokens, 0.5)
    assert (even.dropped, even.computed, even.fills_all) == (4 / 16, 1, 0.5)
    assert statistics.least_capacity(rows, tokens) == 1.5
    safe = statistics.static_capacity(rows, tokens, 1.5)
    assert (safe.dropped, safe.computed, safe.fills_all) == (0, 3, 1)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
