#!/usr/bin/env python3
"""The arithmetic of the benches: gaps between tokens, ratios with intervals, requested placements, plans' cells, slices of
timelines, and the peer's table."""
import argparse
import contextlib
import io
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from peer import markdown, measure_column
from placement_control import expected_busiest, half_moved, oracle_placement
from plan_cells import AUTOMATIC, BEGIN, END, row_of, still_asked, table_of, variants_of, with_tables
from token_times import gaps_between, percentile, ratio_of_percentiles, tokens_of
from trace_slices import slices_of

REPORT = {
    "start_time": 100.0,
    "start_times": [0.0, 1.0, 2.0],
    "ttfts": [0.5, 0.25, 0.0],
    "itls": [[1.0, 0.5], [0.25], [9.0]],
    "errors": ["", "", "status 503"],
}


def test_tokens():
    tokens = tokens_of(REPORT)
    assert tokens == [(100.5, None), (101.25, None), (101.5, 1.0), (101.5, 0.25), (102.0, 0.5)], tokens
    assert gaps_between(tokens, 0, 200) == [0.25, 0.5, 1.0]
    assert gaps_between(tokens, 101.5, 102.0) == [0.25, 1.0]
    assert gaps_between(tokens, 102.5, 103) == []


def test_percentile():
    assert percentile([1, 2, 3, 4, 5], 50) == 3
    assert percentile([1, 2], 75) == 1.75
    assert percentile([7], 99) == 7


def test_ratio():
    draw = random.Random(3)

    def window(scale):
        return sorted(scale * draw.uniform(1, 2) for _ in range(200))

    alike = ratio_of_percentiles([(window(1), window(1)) for _ in range(20)], 99, resamples=200)
    assert alike.low <= alike.value <= alike.high and 0.98 < alike.low and alike.high < 1.02, str(alike)
    worse = ratio_of_percentiles([(window(1.2), window(1)) for _ in range(20)], 99, resamples=200)
    assert 1.15 < worse.low <= worse.value <= worse.high < 1.25, str(worse)
    # One bad window of twenty decides the percentile: the interval must show it.
    pairs = [(window(1), window(1)) for _ in range(19)] + [(window(9), window(1))]
    assert ratio_of_percentiles(pairs, 99, resamples=200).high > 3
    same = ratio_of_percentiles([([1.0, 2.0], [1.0, 2.0])] * 3, 99, resamples=20)
    assert (same.value, same.low, same.high) == (1, 1, 1)


def test_half_moved():
    workers = ["expert-0", "expert-1", "expert-2"]
    hosts = {(layer, expert): [workers[expert % 3]] for layer in (0, 2) for expert in range(12)}
    moved = half_moved(hosts, workers)
    assert len(moved) == 12 and all(moved[key] != hosts[key] for key in moved)
    after = {**hosts, **moved}
    for layer in (0, 2):
        held = [sum(names == [worker] for (at, _), names in after.items() if at == layer) for worker in workers]
        assert held == [4, 4, 4], held
    # A replica stays; an expert that the next worker holds already cannot go there, nor can one without a host.
    both = {(0, 0): ["expert-0", "expert-2"], (0, 1): ["expert-1", "expert-2"], (0, 2): []}
    assert half_moved(both, workers) == {(0, 0): ["expert-1", "expert-2"]}


def test_oracle():
    workers = ["expert-0", "expert-1"]
    # Counting all rows, every pair is equal; 0 and 1 are busy together, so they must be separated.
    windows = [[[4, 4, 1, 1], []], [[1, 1, 4, 4], []]]
    found = oracle_placement(windows, workers)
    assert sorted(found) == [(0, expert) for expert in range(4)]
    host_of = {expert: found[0, expert][0] for expert in range(4)}
    assert host_of[0] != host_of[1] and host_of[2] != host_of[3], found
    assert expected_busiest(windows, 0, host_of, workers) == 1
    assert expected_busiest(windows, 0, dict(enumerate(["expert-0"] * 2 + ["expert-1"] * 2)), workers) == 1.6


def test_variants():
    names = {"avx2", "amx", "bf16.avx2 fma", "bf16_coded.amx tiles", "int8_int8.amx integer_tiles"}
    found = variants_of("16 bit", names, "troupe kernel plan 1\nset amx\ncoded_weights yes\n", "amx")
    assert list(found)[0] == AUTOMATIC and found[AUTOMATIC] == ("coded", "mapped", AUTOMATIC), found
    assert found["automatic, plain"] == ("plain", "mapped", AUTOMATIC) and "automatic, coded" not in found
    assert found["avx2 fma, plain"] == ("plain", "mapped", "bf16.avx2 fma") and "avx2 fma, coded" not in found
    assert found["amx tiles, coded"] == ("coded", "mapped", "bf16_coded.amx tiles")
    assert found["avx2, plain"] == ("plain", "mapped", "avx2") and found["avx2, coded"] == ("coded", "mapped", "avx2")
    assert found["amx, plain, copied"] == ("plain", "copied", "amx") and found["automatic, coded, copied"][:2] == ("coded", "copied")
    found = variants_of("int8", names, "troupe kernel plan 1\nset amx\ncoded_weights yes\n", "amx")
    assert list(found) == [AUTOMATIC, "amx", "avx2", "amx integer_tiles", "automatic, copied", "amx, copied"], list(found)


def test_still_asked():
    assert still_asked({AUTOMATIC: [1.0], "a": [2.0], "b": [1.5], "c": [1.6, 1.0]}) == [AUTOMATIC, "a", "c"]
    assert still_asked({AUTOMATIC: [9.0], "a": [2.0], "b": [1.5]}) == [AUTOMATIC, "a"]  # whatever the automatic one does


def test_tables():
    cell = {"cell": "prefill 512", "automatic": 90.0, "best": 100.0, "best_name": "amx tiles", "ratio": 0.9, "floor": 180.0}
    assert row_of("int8", cell, None) == "| int8, prefill 512 | 90.0 | 100.0 (amx tiles) | **0.90** | 180 | 50 % | – | – |"
    assert row_of("int8", cell, {"rate": 60.0}).endswith("| 60.0 | **1.50** |")
    result = {"processor": "X", "threads": 2, "model": "m", "commit": "c", "rounds": 3, "date": "d", "quick": False,
              "columns": [{"column": "int8", "cells": [cell]}]}
    document = with_tables(f"a\n{BEGIN}\nold\n{END}\nb\n", [table_of(result)])
    assert document.startswith(f"a\n{BEGIN}\n\nX, 2 threads, m, c, 3 rounds, d:\n") and document.endswith(f"|\n\n{END}\nb\n")
    assert "old" not in document and with_tables(document, [table_of(result)]) == document


def test_slices():
    def event(phase, name, at, track=0, **more):
        return {"ph": phase, "name": name, "ts": at, "pid": 1, "tid": 2, "cat": "c", "id2": {"local": track}, **more}

    events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "expert-0"}}, event("b", "wait", 1), event("b", "other", 2, track=1),
              event("b", "way", 3), event("X", "step", 3, dur=4), event("e", "way", 5), event("b", "queue", 5), event("e", "queue", 9),
              event("s", "flow", 9), event("e", "other", 10, track=1), event("e", "wait", 11)]
    found = [(one["name"], one["ph"], begin, end, parts) for one, begin, end, parts in slices_of(events)]
    assert found == [("step", "X", 3, 7, []), ("way", "b", 3, 5, []), ("queue", "b", 5, 9, []), ("other", "b", 2, 10, []),
                     ("wait", "b", 1, 11, [("way", 2), ("queue", 4)])], found
    try:
        list(slices_of(events[-1:]))
        raise AssertionError("an end without a begin is taken")
    except ValueError as error:
        assert "has not begun" in str(error), error


# Answers like engine_bench and peer_bench, with a given number of tokens a second.
FAKE_BENCH = """#!/usr/bin/python3
import json, sys
LIMITS = {"read_gbps": 10, "f32_gflops": 100, "bf16_gflops": 100, "int8_gops": 100, "int4_gops": 100}
print(json.dumps({"arguments": sys.argv[1:]}), flush=True)
for line in sys.stdin:
    answers = {"greedy": {"greedy": [1]}, "limits": LIMITS}
    print(json.dumps(answers.get(line.split()[0], {"tokens": RATE, "seconds": 1})), flush=True)
"""


def test_peer():
    config = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 100, "num_hidden_layers": 1, "num_local_experts": 2,
              "num_experts_per_tok": 1, "num_attention_heads": 1, "num_key_value_heads": 1}

    def column(folder, before):
        args = argparse.Namespace(bench=str(folder / "ours"), before=before, peer_bench=str(folder / "peer"), model=str(folder), run_with="",
                                  candidates="", cells="batch 1", context=0, kv_cache="auto", threads=1, lock=None, rounds=2)
        with contextlib.redirect_stderr(io.StringIO()):
            return measure_column(args, "int8", config)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program, rate in (("ours", 12), ("earlier", 8), ("peer", 6)):
            (folder / program).write_text(FAKE_BENCH.replace("RATE", str(rate)), encoding="utf-8")
            (folder / program).chmod(0o700)
        found = column(folder, str(folder / "earlier"))
        cell = found["cells"]["decode, batch 1"]
        assert (cell["ratio"], cell["over_before"], cell["peer_rate"]) == (2, 1.5, 6), cell
        caches = [arguments[arguments.index("--weights-cache") + 1]
                  for arguments in (found["about"][engine]["arguments"] for engine in ("troupe", "before"))]
        assert caches[0] != caches[1], "the builds' packed weights may differ in format"
        table = markdown([found]).splitlines()
        assert table[0].endswith("| ours of it | before | ours of before |"), table
        assert table[2].endswith("| 8.0 | 1.50 |") and len({line.count("|") for line in table[:3]}) == 1, table
        assert "before" not in markdown([column(folder, None)])


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
