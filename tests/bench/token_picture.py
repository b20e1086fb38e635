#!/usr/bin/python3
"""Draws one token of a timeline: what each process did for it, and the messages between them.

    token_picture.py TIMELINE.json --out token.png

TIMELINE.json is what `troupe trace merge` has made of a `troupe up` that served streams. The token is the one whose iteration took the median
time. A row is a thread, or a kind of work that belongs to no thread (in italics); arrows lead from where a message was sent to
where it arrived. The same file opens in https://ui.perfetto.dev, which shows all of it.
"""
import argparse
import collections
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (behind the choice of what draws)

import token_time  # noqa: E402
from trace_slices import slices_of  # noqa: E402

ROLES = ("gateway", "scheduler", "attention", "expert")
TRACKS = {"decode": "iterations", "experts": "waits for experts", "batch at host": "batches here"}  # beside threads
FLOWS = ("expert batch", "token")
# Colours of the parts, in the order of the legend; all else is transfer.
MEANINGS = {"#dddddd": ("an iteration", ("decode",)), "#4c78a8": ("attention", ("attention", "attention and LM head")),
            "#9ecae9": ("router", ("router",)), "#ffbf79": ("waiting for experts; a batch at its host", ("batch at host",)),
            "#f58518": ("experts", ("experts",)), "#b279a2": ("sampling", ("sampling",)), "#54a24b": ("token at the gateway", ("token",)),
            "#88d27a": ("text, and its way to the client", ("detokenize", "write")), "#bab0ac": ("sending and receiving", ())}
COLORS = {name: color for color, (_, names) in MEANINGS.items() for name in names}
OTHER = "#bab0ac"


def chosen_token(timeline):
    """@returns (begin, end) of the token whose iteration took the median time, in microseconds: until the client has it"""
    found = []
    of_request = {request: trace for trace, requests in timeline.requests.items() for request in requests}
    for (request, choice, attempt), sent in timeline.sent.items():
        for index, token in sent.items():
            iteration = timeline.iterations[request, choice, attempt].get(index)
            way = token_time.way_of(timeline, of_request.get(request), request, choice, token, index)
            if iteration and way and index > 0:
                found.append((iteration["end"] - iteration["begin"], iteration["begin"], way[1]))
    if not found:
        raise SystemExit("the timeline has no token from its iteration to its client")
    return sorted(found)[len(found) // 2][1:]


class Window:
    """What a timeline has between two times: rows of slices, and arrows between them."""

    def __init__(self, events, begin, end):
        self.begin, self.end = begin, end
        self.processes = {}
        self.rows = collections.defaultdict(list)  # (process, row, whether it is a thread) -> [(begin, end, name)]
        self.arrows = collections.defaultdict(list)  # message -> [(time, row)]
        for event in events:
            if event["ph"] == "M" and event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"].split(" ")[0]
            elif event["ph"] in "stf" and event["name"] in FLOWS and begin <= event["ts"] <= end:
                self.arrows[event["name"], event["id"]].append((event["ts"], self.row_of(event)))
        for event, first, last, _ in slices_of(events):
            name = event["name"]
            if event["ph"] == "X":
                self.add(self.row_of(event), first, last, name)
            elif name in TRACKS:  # a wait has the colour of a batch, not that of the computing part
                self.add((event["pid"], name, False), first, last, "batch at host" if name == "experts" else name)

    @staticmethod
    def row_of(event):
        return event["pid"], event["tid"], True

    def add(self, row, begin, end, name):
        if begin < self.end and end > self.begin:
            self.rows[row].append((max(begin, self.begin), min(end, self.end), name))

    def ordered(self):
        """Rows from the client to the experts, threads that do the most first."""
        def rank(row):
            role = self.processes[row[0]].split("-")[0]
            busy = sum(end - begin for begin, end, _ in self.rows[row])
            return ROLES.index(role), self.processes[row[0]], row[2], -busy
        return sorted(self.rows, key=rank)


def draw(window, out):
    rows = window.ordered()
    height = {row: len(rows) - number for number, row in enumerate(rows)}
    figure, axes = plt.subplots(figsize=(12, 0.36 * len(rows) + 1.4), dpi=85)
    for row in rows:
        for begin, end, name in sorted(window.rows[row], key=lambda one: one[0] - one[1]):  # nested slices are drawn on top
            axes.barh(height[row], end - begin, left=begin - window.begin, height=0.72, color=COLORS.get(name, OTHER), edgecolor="white",
                      linewidth=0.3)
    for (name, _), points in window.arrows.items():
        points.sort(key=lambda point: point[0])
        for (begin, sender), (end, receiver) in zip(points, points[1:]):
            if sender != receiver and sender in height and receiver in height:
                axes.annotate("", (end - window.begin, height[receiver]), (begin - window.begin, height[sender]),
                              arrowprops={"arrowstyle": "-|>", "lw": 0.4, "color": "#54a24b" if name == "token" else "#555555", "shrinkA": 0,
                                          "shrinkB": 0, "mutation_scale": 5})
    numbers = collections.Counter()
    labels = []
    for pid, row, is_thread in rows:
        numbers[pid] += is_thread
        labels.append(f"{window.processes[pid]}  {f'thread {numbers[pid]}' if is_thread else TRACKS[row]}")
    axes.set_yticks([height[row] for row in rows], labels, fontsize=7)
    for tick, row in zip(axes.get_yticklabels(), rows):
        tick.set_style("normal" if row[2] else "italic")
    axes.set_xlim(0, window.end - window.begin)
    axes.set_xlabel("microseconds since its iteration began", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=color) for color in MEANINGS], [meaning for meaning, _ in MEANINGS.values()], loc="lower center",
                bbox_to_anchor=(0.5, 1), ncols=5, fontsize=7, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timeline", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    trace = json.loads(options.timeline.read_text(encoding="utf-8"))
    begin, end = chosen_token(token_time.Timeline(trace))
    margin = 0.02 * (end - begin)
    draw(Window(trace["traceEvents"], begin - margin, end + margin), options.out)


if __name__ == "__main__":
    main()
