"""The slices of a merged timeline: of threads, and of tracks that belong to no thread. Standard library."""
import collections


def slices_of(events):
    """Pairs the begins and ends of tracks; an end belongs to the last begin of its track that has none yet.

    events: those of the format of Chrome's trace viewer, in the order of the file.
    Yields (event, begin, end, parts) at a slice's end: the event that began it, microseconds, and [(name, microseconds)] of the
    slices directly within it on its track. A thread's slices (phase X) have no parts.
    @errors ValueError: a track ends what it has not begun
    """
    tracks = collections.defaultdict(list)  # (pid, category, id) -> [(event, parts)] of open slices
    for event in events:
        phase = event["ph"]
        if phase == "X":
            yield event, event["ts"], event["ts"] + event["dur"], []
        elif phase in "be":
            key = event["pid"], event["cat"], event["id2"]["local"]
            track = tracks[key]
            if phase == "b":
                track.append((event, []))
                continue
            if not track:
                raise ValueError(f"the timeline ends a slice of track {key} at {event['ts']} us that it has not begun")
            begun, parts = track.pop()
            if track:
                track[-1][1].append((begun["name"], event["ts"] - begun["ts"]))
            yield begun, begun["ts"], event["ts"], parts
