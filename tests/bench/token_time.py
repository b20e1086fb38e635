#!/usr/bin/python3
"""Divides the time of a token: adds up a merged timeline, hop by hop.

    token_time.py TIMELINE.json [--json]

TIMELINE.json is what `troupe trace merge` has made of a `troupe up` that served streams. For each two tokens of a stream that
follow one another, the time between their writes to the client is divided into what lies between them: the wait for a turn,
attention, router, the experts of each layer (the batch that came last: way there, queue, computing, answering, way back),
sampling, and what passes between these. A token's way from the attention worker to the client runs beside the next iteration
and so adds nothing but what it takes longer or shorter than the one before; it is shown by itself as well. Last comes the
residual: what the parts do not explain. Exit status 1 when that is more than 5 %, or there is no token.
"""
import argparse
import collections
import json
import statistics
import sys

from trace_slices import slices_of

MOST_RESIDUAL = 0.05
ITERATION = ("wait for a turn", "attention", "router", "send rows to experts", "way to experts", "queue at experts", "compute experts",
             "answer of experts", "way back from experts", "take answers", "sampling", "between actor and compute thread",
             "send the token")
WAY = ("way to the gateway", "wait for the stream", "detokenize", "wait for the write", "write")


class Timeline:
    """The events that matter, by what they belong to."""

    def __init__(self, trace):
        self.iterations = collections.defaultdict(dict)  # (request, choice, attempt) -> token index -> slice
        self.sent = collections.defaultdict(dict)  # the same -> time
        self.arrived = {}  # (request, choice, index) -> slice
        self.rendered = {}  # (trace id, prompt, choice, index) -> slice
        self.writes = {}  # (trace id, number) -> slice
        self.steps = collections.defaultdict(list)  # batch -> slices
        self.waits = collections.defaultdict(list)  # batch -> slices
        self.batches = {}  # (batch, layer) -> the expert batch that arrived last, with its parts
        self.requests = collections.defaultdict(set)  # trace id -> request numbers
        self.read(trace["traceEvents"])

    def read(self, events):
        for event, begin, end, parts in slices_of(events):
            self.take(event, begin, end, parts)

    def take(self, event, begin, end, parts):
        name, args = event["name"], event.get("args")
        if not args:
            return
        one = {"begin": begin, "end": end, "args": args, "parts": dict(parts), "pid": event["pid"]}
        if name in ("decode", "prefill") and args["has_token"]:
            self.iterations[args["request"], args["choice"], args["attempt"]][args["token_index"]] = one
        elif name == "send token":
            self.sent[args["request"], args["choice"], args["attempt"]][args["first_index"]] = one
        elif name == "token":
            self.arrived[args["request"], args["choice"], args["first_index"]] = one
            self.requests[args["trace_id"]].add(args["request"])
        elif name == "detokenize":
            self.rendered[args["trace_id"], args["prompt"], args["choice"], args["index"]] = one
        elif name == "write":
            self.writes[args["trace_id"], args["write"]] = one
        elif name in ("attention", "attention and LM head") and "batch" in args:
            self.steps[args["batch"]].append(one)
        elif name == "experts" and "batch" in args:
            self.waits[args["batch"]].append(one)
        elif name == "expert batch" and args["is_last"]:
            self.batches[args["batch"], args["layer"]] = one


def way_of(timeline, trace_id, request, choice, sent, index):
    """The parts of a token's way to the client, and when its write had ended; None where the trace lacks one."""
    arrived = timeline.arrived.get((request, choice, index))
    rendered = timeline.rendered.get((trace_id, 0, choice, index))
    write = timeline.writes.get((trace_id, rendered["args"]["write"])) if rendered else None
    if not (arrived and rendered and write):
        return None
    stamps = [sent["begin"], arrived["begin"], rendered["begin"], rendered["end"], max(write["begin"], rendered["end"]), write["end"]]
    return {name: stamps[i + 1] - stamps[i] for i, name in enumerate(WAY)}, write["end"]


def parts_of(timeline, iteration, before, sent):
    """What lies between two tokens on the attention worker's side; None where the trace lacks an event."""
    batch = iteration["args"]["batch"]
    parts = collections.Counter({"wait for a turn": iteration["begin"] - before["begin"],
                                 "send the token": sent["begin"] - iteration["end"]})
    at = iteration["begin"]
    stages = [(step["begin"], step, None) for step in timeline.steps[batch]]
    for wait in timeline.waits[batch]:
        last = timeline.batches.get((batch, wait["args"]["layer"]))
        if last is None:
            return None
        stages.append((wait["begin"], wait, last))
    for begin, stage, last in sorted(stages, key=lambda entry: entry[0]):
        parts["between actor and compute thread"] += begin - at
        at = stage["end"]
        if last is None:
            router, sampling = stage["args"]["router_ns"] / 1e3, stage["args"]["sampling_ns"] / 1e3
            parts["router"] += router
            parts["sampling"] += sampling
            parts["attention"] += stage["end"] - begin - router - sampling
            continue
        parts["send rows to experts"] += last["begin"] - begin
        parts["take answers"] += stage["end"] - last["end"]
        inner = last["parts"]
        parts["way to experts"] += inner.get("way there", 0)
        parts["queue at experts"] += inner.get("queue", 0)
        parts["compute experts"] += inner.get("compute", 0)
        parts["answer of experts"] += inner.get("answer", 0)
        parts["way back from experts"] += inner.get("way back", 0)
    parts["between actor and compute thread"] += iteration["end"] - at
    return parts


def tokens_of(timeline):
    """Yields (measured time between two writes, parts, way of the second token), all in microseconds."""
    of_request = {request: trace for trace, requests in timeline.requests.items() if len(requests) == 1 for request in requests}
    for (request, choice, attempt), sent in timeline.sent.items():
        trace_id, iterations = of_request.get(request), timeline.iterations[request, choice, attempt]
        for index, token in sent.items():
            before = sent.get(index - 1)
            if trace_id is None or before is None or index not in iterations:
                continue
            ways = [way_of(timeline, trace_id, request, choice, one, at) for one, at in ((before, index - 1), (token, index))]
            parts = parts_of(timeline, iterations[index], before, token)
            if parts is None or None in ways:
                continue
            (earlier, began), (later, ended) = ways
            parts["longer or shorter way to the client"] = sum(later.values()) - sum(earlier.values())
            yield ended - began, parts, later


def account(trace):
    """@returns the mean time between tokens, its parts, the way to the client and the residual, in microseconds"""
    measured, parts, ways, count = [], collections.Counter(), collections.Counter(), 0
    for interval, one, way in tokens_of(Timeline(trace)):
        measured.append(interval)
        parts.update(one)
        ways.update(way)
        count += 1
    if not count:
        raise SystemExit("token_time: the timeline has no two tokens of a traced stream that follow one another")
    names = (*ITERATION, "longer or shorter way to the client")
    mean = statistics.mean(measured)
    result = {name: parts[name] / count for name in names}
    return {"tokens": count, "measured_us": mean, "parts_us": result, "way_to_client_us": {name: ways[name] / count for name in WAY},
            "residual_us": mean - sum(result.values()), "residual": (mean - sum(result.values())) / mean}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timeline")
    parser.add_argument("--json", action="store_true", help="print the sums as JSON")
    options = parser.parse_args()
    with open(options.timeline, encoding="utf-8") as file:
        sums = account(json.load(file))
    if options.json:
        print(json.dumps(sums))
    else:
        whole = sums["measured_us"]
        print(f"{sums['tokens']} tokens, {whole:.1f} us between two writes to the client")
        for name, us in sums["parts_us"].items():
            print(f"  {name:38} {us:10.1f} us {100 * us / whole:6.1f} %")
        print(f"  {'residual':38} {sums['residual_us']:10.1f} us {100 * sums['residual']:6.1f} %")
        print(f"a token's way from the attention worker to the client: {sum(sums['way_to_client_us'].values()):.1f} us")
        for name, us in sums["way_to_client_us"].items():
            print(f"  {name:38} {us:10.1f} us")
    return 0 if abs(sums["residual"]) <= MOST_RESIDUAL else 1


if __name__ == "__main__":
    sys.exit(main())
