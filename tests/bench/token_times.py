"""Arrival times of tokens in a run of troupe-load, gaps between them, and the confidence of a ratio of percentiles.
Standard library."""

import bisect
import itertools
import json
import pathlib
import random
import subprocess

RESAMPLES = 2000


class Load:
    """troupe-load run in the background. `report` waits for its end."""

    def __init__(self, binaries, port, out, **flags):
        self.out = pathlib.Path(out)
        command = [str(pathlib.Path(binaries) / "troupe-load"), "run", "--url", f"http://127.0.0.1:{port}"]
        command += ["--output", str(self.out)]
        for name, value in flags.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def report(self, timeout):
        """Failed requests are in the report, and no error here. @throws RuntimeError when there is no report"""
        try:
            _, errors = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise RuntimeError(f"troupe-load did not end within {timeout:.0f} s") from None
        if not self.out.exists():
            raise RuntimeError(f"troupe-load: {errors.strip()}")
        return json.loads(self.out.read_text(encoding="utf-8"))

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def tokens_of(report):
    """@returns [(Unix time, seconds since the token before it, or None for a first one)], by time"""
    found = []
    requests = zip(report["start_times"], report["ttfts"], report["itls"], report["errors"])
    for start, first, gaps, error in requests:
        if error:
            continue
        now = report["start_time"] + start + first
        found.append((now, None))
        for gap in gaps:
            now += gap
            found.append((now, gap))
    return sorted(found, key=lambda token: token[0])


def gaps_between(tokens, begin, end):
    """Gaps, in order of size, of the tokens of [begin, end)."""
    first = bisect.bisect_left(tokens, begin, key=lambda token: token[0])
    last = bisect.bisect_left(tokens, end, key=lambda token: token[0])
    return sorted(gap for _, gap in tokens[first:last] if gap is not None)


def percentile(ordered, percent):
    """Linear between the closest ranks, as troupe-load has it."""
    place = percent / 100 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def merged(lists):
    # Concatenated sorted runs, which Python's sort merges.
    return sorted(itertools.chain.from_iterable(lists))


class Ratio:
    """value, and its 95 % interval: low to high"""

    def __init__(self, value, low, high):
        self.value, self.low, self.high = value, low, high

    def __str__(self):
        return f"{self.value:.3f} (95 %: {self.low:.3f} to {self.high:.3f})"


def ratio_of_percentiles(pairs, percent, seed=1, resamples=RESAMPLES):
    """The percentile of all first over that of all second members of the pairs, with a bootstrap over pairs.

    @param pairs  [(gaps of one window, gaps of the other)], each in order and none empty
    """

    def ratio(chosen):
        first, second = (percentile(merged(lists), percent) for lists in zip(*chosen))
        return first / second

    draw = random.Random(seed)
    found = sorted(ratio(draw.choices(pairs, k=len(pairs))) for _ in range(resamples))
    return Ratio(ratio(pairs), percentile(found, 2.5), percentile(found, 97.5))
