#!/usr/bin/env python3
"""What the benches of placement reckon: gaps between tokens, ratios with intervals, and the placements that they ask for."""
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from placement_control import expected_busiest, half_moved, oracle_placement
from token_times import gaps_between, percentile, ratio_of_percentiles, tokens_of

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
    # A replica stays; an expert that the next worker holds already cannot go there; one without a host neither.
    both = {(0, 0): ["expert-0", "expert-2"], (0, 1): ["expert-1", "expert-2"], (0, 2): []}
    assert half_moved(both, workers) == {(0, 0): ["expert-1", "expert-2"]}


def test_oracle():
    workers = ["expert-0", "expert-1"]
    # By all rows every pair is as good; 0 and 1 are busy together, so they are to part.
    windows = [[[4, 4, 1, 1], []], [[1, 1, 4, 4], []]]
    found = oracle_placement(windows, workers)
    assert sorted(found) == [(0, expert) for expert in range(4)]
    host_of = {expert: found[0, expert][0] for expert in range(4)}
    assert host_of[0] != host_of[1] and host_of[2] != host_of[3], found
    assert expected_busiest(windows, 0, host_of, workers) == 1
    assert expected_busiest(windows, 0, dict(enumerate(["expert-0"] * 2 + ["expert-1"] * 2)), workers) == 1.6


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
