"""Checks that viewers of trace events can draw a merged timeline. Standard library only.

flaws(trace) gives a list of sentences, empty for a sound one: all required members are there, slices of a thread lie in one
another, those of a track are closed in the order in which a stack would, and each arrow has one start, one end, and points
that lie in slices.
"""
import collections

REQUIRED = {"M": ("name", "pid", "args"), "X": ("name", "ts", "dur", "pid", "tid"), "b": ("name", "cat", "id2", "ts", "pid", "tid"),
            "e": ("name", "cat", "id2", "ts", "pid", "tid"), "i": ("name", "ts", "pid", "tid", "s"),
            "s": ("name", "cat", "id", "ts", "pid", "tid"), "t": ("name", "cat", "id", "ts", "pid", "tid"),
            "f": ("name", "cat", "id", "ts", "pid", "tid", "bp")}
MOST_FLAWS = 20
# Times have three digits after the point of a microsecond: a sum may be off by the last one.
ROUNDING = 0.0015


def flaws(trace):
    found = []
    events = trace.get("traceEvents")
    if not isinstance(events, list) or not events:
        return ["there are no traceEvents"]
    last, named = 0.0, set()
    for number, event in enumerate(events):
        phase = event.get("ph")
        missing = [key for key in REQUIRED.get(phase, ()) if key not in event]
        if phase not in REQUIRED or missing:
            found.append(f"event {number}: phase {phase!r}, missing {missing}: {event}")
            continue
        if phase == "M":
            if event["name"] == "process_name":
                named.add(event["pid"])
            continue
        if event["pid"] not in named:
            found.append(f"event {number}: process {event['pid']} has no name")
        if event["ts"] < last or event.get("dur", 0) < 0:
            found.append(f"event {number}: its time {event['ts']} is before {last}, or it takes {event.get('dur')}")
        last = max(last, event["ts"])
        if len(found) > MOST_FLAWS:
            return found
    return (found or thread_flaws(events) + track_flaws(events) + flow_flaws(events))[:MOST_FLAWS]


def threads_of(events):
    threads = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    return threads


def thread_flaws(events):
    """Slices of a thread that overlap without one being in the other."""
    found = []
    for thread, slices in threads_of(events).items():
        open_slices = []
        for one in slices:
            while open_slices and open_slices[-1]["ts"] + open_slices[-1]["dur"] <= one["ts"] + ROUNDING:
                open_slices.pop()
            if open_slices and one["ts"] + one["dur"] > open_slices[-1]["ts"] + open_slices[-1]["dur"] + ROUNDING:
                found.append(f"thread {thread}: {one} begins in {open_slices[-1]} and ends behind it")
            open_slices.append(one)
    return found


def track_flaws(events):
    """Begins and ends that do not match."""
    found, tracks = [], collections.defaultdict(list)
    for event in events:
        if event["ph"] not in "be":
            continue
        track = tracks[event["pid"], event["cat"], event["id2"]["local"]]
        if event["ph"] == "b":
            track.append(event["name"])
        elif not track or track.pop() != event["name"]:
            found.append(f"an end without its begin: {event}")
    found += [f"never ended: {track} {names}" for track, names in tracks.items() if names]
    return found


def flow_flaws(events):
    """Arrows without start or end, or from nowhere."""
    found, flows, begins = [], collections.defaultdict(list), collections.defaultdict(set)
    for event in events:
        if event["ph"] in "stf":
            flows[event["cat"], event["id"]].append(event)
        elif event["ph"] == "X":
            begins[event["pid"], event["tid"]].add(event["ts"])
    for flow, points in flows.items():
        phases = "".join(point["ph"] for point in points)
        if len(phases) < 2 or phases != "s" + "t" * (len(phases) - 2) + "f":
            found.append(f"arrow {flow} is {phases}")
        for point in points:
            if point["ts"] not in begins[point["pid"], point["tid"]]:
                found.append(f"a point of arrow {flow} is in no slice: {point}")
    return found
