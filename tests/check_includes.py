#!/usr/bin/env python3
"""Who may include whom: services -> actors -> {actors/transport, kernels/model -> kernels}, and inside actors/ by role.

usage: tests/check_includes.py [ROOT]

Reads the #include lines of the C++ sources under ROOT (default: the checkout) and prints every one that the tables
below do not allow. Exit status 1 when there is one. tests/check_includes_test.py tests it.

Scheduler, history, gateway, attention and expert know one another by what they send and whom they send it to, not by how that
is done. So of one another they include only:
- messages: headers whose name ends in `_messages.hpp`;
- interfaces of actors: a header X.hpp that says `using X_actor = caf::typed_actor<`.
"""
import pathlib
import re
import sys

# How messages lie on the wire, for those who define some.
LAYOUT = "actors/transport/wire/extensible.hpp"
EVERYTHING = ["services/", "actors/", "kernels/", "load/"]
# Folder -> folders, or single files, that it may include (itself always). "actors/" with a slash is actors and all folders below it. The
# longest folder whose path a file starts with is the file's own.
ALLOWED = {
    # The transport knows bytes and peers, not models: what bytes mean, connections to peers, then CAF's actors.
    "actors/transport/wire": [],
    "actors/transport/fabric": ["actors/transport/wire"],
    "actors/transport/caf": ["actors/transport", "actors/transport/wire", "actors/transport/fabric"],
    "actors/transport": ["actors/transport/"],
    "actors/engine": ["actors", "actors/timeline", "actors/transport/", "kernels/"],  # engines know no actors, so no cluster either
    "actors/timeline": ["actors"],  # what happens when; knows nobody
    "actors/cluster": ["actors", "actors/timeline", LAYOUT],
    "actors/planner": ["actors/ids.hpp", "actors/expert_target.hpp"],  # pure: histories and hosts in, placements out
    "actors/scheduler": ["actors", "actors/timeline", "actors/cluster", "actors/planner", LAYOUT],
    "actors/history": ["actors", "actors/cluster", LAYOUT],
    "actors/rebalancer": ["actors", "actors/cluster", "actors/planner", "actors/history/activation_window.hpp", LAYOUT],
    "actors/gateway": ["actors", "actors/timeline", "actors/cluster"],
    "actors/attention": ["actors", "actors/timeline", "actors/cluster", "actors/engine", "actors/transport/"],
    "actors/expert": ["actors", "actors/timeline", "actors/cluster", "actors/engine", "actors/transport/"],
    "actors/collective": ["actors", "actors/transport/", "kernels"],  # moves values, knows no model
    "actors": [LAYOUT, "actors/transport/wire/message_kind.hpp"],
    "kernels/cuda": ["kernels"],
    "kernels/model": ["kernels"],
    "kernels/model/cuda": ["kernels", "kernels/model", "kernels/cuda"],
    "kernels": [],
    "services/options": ["actors"],  # the defaults of flags that actors are configured with
    "services/client": ["services/options"],
    "services": ["services/options", "services/client", "actors/", "kernels/"],
    "load/simulation": ["services/options", "actors/"],  # a cluster without processes and sockets
    "load": ["services/options", "services/client"],  # it talks HTTP, with the client and the flags that all programs have
    "tests": EVERYTHING,
}
BOXES = sorted(ALLOWED, key=len, reverse=True)

# The one source that writes and reads all messages.
LAYOUTS = "actors/message_layouts.cpp"

ROLES = ["actors/cluster", "actors/scheduler", "actors/history", "actors/rebalancer", "actors/gateway", "actors/attention", "actors/expert"]
# Folder -> folders of whose files it may include messages.
MESSAGES = {"actors": ROLES, "actors/engine": ROLES, **{role: ROLES for role in ROLES}}
# The same for interfaces of actors.
INTERFACES = {role: ROLES for role in ROLES}

# third-party header prefix -> paths that may include it
THIRD_PARTY = {
    "ucp/": ["actors/transport/fabric/"],
    "ucs/": ["actors/transport/fabric/"],
    "uct/": [],
    "caf/io/": ["tests/bench/"],
    "caf/": ["actors/", "services/", "load/simulation/", "tests/"],
    "boost/": ["services/", "load/", "tests/"],
    "nlohmann/": ["kernels/model/", "actors/", "services/", "load/", "tests/"],
    "prometheus/": ["services/", "tests/"],
    "openssl/": ["actors/transport/wire/", "services/", "tests/"],
    "cuda": ["kernels/cuda/"],
    "cublas": ["kernels/cuda/"],
    "nccl": ["kernels/cuda/"],
    "Python.h": ["services/gateway/template/", "tests/unit/text/"],
    "zlib.h": ["services/gateway/http/", "tests/"],
    "immintrin.h": ["kernels/cpu/", "tests/bench/", "tests/unit/kernels/"],
}
# Headers (not sources) may not drag these into their users: they cost seconds each (kept out of interfaces).
HEAVY = ["boost/", "nlohmann/", "prometheus/", "ucp/", "Python.h"]
HEAVY_HEADERS_ALLOWED = {"services/", "load/", "tests/", "actors/transport/"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def box_of(path):
    for box in BOXES:
        if path.startswith(box + "/"):
            return box
    return None


def is_interface(path):
    return re.search(rf"\busing\s+{path.stem}_actor\s*=\s*caf::typed_actor<", path.read_text(encoding="utf-8")) is not None


def may_include(root, source, target):
    """Whether a file in folder `source` may include the file `target` of ours."""
    included = box_of(target)
    if included is None:
        return False
    if included == source or any(box in (included, target) or (box[-1] == "/" and (included + "/").startswith(box))
                                 for box in ALLOWED[source]):
        return True
    if target.endswith("_messages.hpp"):
        return included in MESSAGES.get(source, [])
    return included in INTERFACES.get(source, []) and is_interface(root / target)


def violations(root):
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in {".hpp", ".cpp", ".cu", ".cuh"} or box_of(name) is None:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quoted, target = match.group(1) == '"', match.group(2)
            where = f"{name}:{number}: {target}"
            if quoted:
                if not (root / target).exists():
                    yield f"{where}: not a path from the repository root"
                    continue
                if name == LAYOUTS and target.endswith("_layout.hpp"):
                    continue
                if not may_include(root, box_of(name), target):
                    yield f"{where}: {box_of(name)} may not include this file of {box_of(target)}"
                continue
            for prefix, places in THIRD_PARTY.items():
                if target.startswith(prefix):
                    if not any(name.startswith(place) for place in places):
                        yield f"{where}: only {', '.join(places) or 'nobody'} may include {prefix}"
                    break
            if path.suffix == ".hpp" and any(target.startswith(h) for h in HEAVY):
                if not any(name.startswith(place) for place in HEAVY_HEADERS_ALLOWED):
                    yield f"{where}: too heavy for a header; include it in the source file"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = list(violations(root))
    for line in found:
        print(line)
    print(f"{len(found)} forbidden includes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
