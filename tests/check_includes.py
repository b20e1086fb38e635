#!/usr/bin/env python3
"""Who may include whom: services -> actors -> {actors/transport, kernels/model -> kernels}; load on its own.

usage: tests/check_includes.py [ROOT]

Reads the #include lines of the C++ sources under ROOT (default: the checkout) and prints each one that the tables below do not
allow, and each circle of folders. Exit status 1 when there is one. tests/check_includes_test.py tests it.

Roles (scheduler, gateway, attention, expert, history, rebalancer) know one another by actors/protocol alone: ids, errors, messages
and the interfaces of actors.
"""
import pathlib
import re
import sys

FLOOR = ["actors/protocol"]
# Folder -> folders that it may include (always itself). A slash at the end: that folder and all below it. The longest folder that
# is a prefix of a file's path is the file's own.
ALLOWED = {
    # The transport handles bytes and peers, not models: first the meaning of bytes, then connections to peers, then CAF's actors.
    "actors/transport/wire": [],
    "actors/transport/fabric": ["actors/transport/wire"],
    "actors/transport/caf": ["actors/transport/wire", "actors/transport/fabric"],
    "actors/protocol": ["actors/transport/wire"],
    "actors/state": [],
    "actors/timeline": FLOOR,
    "actors/planner": FLOOR,  # pure: histories and hosts in, placements out
    "actors/cluster": [*FLOOR, "actors/timeline"],
    "actors/engine": [*FLOOR, "actors/timeline", "actors/transport/", "kernels/"],  # engines know no roles
    "actors/collective": [*FLOOR, "actors/transport/", "kernels"],
    "actors/scheduler": [*FLOOR, "actors/state", "actors/timeline", "actors/cluster"],
    "actors/history": [*FLOOR, "actors/state", "actors/cluster"],
    "actors/rebalancer": [*FLOOR, "actors/state", "actors/planner"],
    "actors/gateway": [*FLOOR, "actors/timeline", "actors/cluster"],
    "actors/attention": [*FLOOR, "actors/timeline", "actors/engine"],
    "actors/expert": [*FLOOR, "actors/timeline", "actors/engine", "actors/transport/wire"],
    "kernels": [],
    "kernels/cuda": ["kernels"],
    "kernels/model": ["kernels"],
    "kernels/model/cuda": ["kernels", "kernels/model", "kernels/cuda"],
    # Text processing, and the common parts of clients and commands, are independent of the cluster's processes.
    "services/options": FLOOR,  # the defaults of flags that actors are configured with
    "services/asio": ["services/options"],
    "services/client": ["services/options"],
    "services/pages": ["services/client"],  # read by programs that talk HTTP
    "services/top": ["services/client", "services/pages"],
    "services/manual": ["services/client", "services/options"],
    "services/gateway/template": [],
    "services/gateway/text": ["services/gateway/template"],
    "services/gateway/openai": [*FLOOR, "services/gateway/text", "kernels"],
    "services": ["services/", "actors/", "kernels/"],
    "load": ["services/options", "services/client", "services/pages"],  # it talks HTTP, with the client and the flags of all programs
    "tests": ["services/", "actors/", "kernels/", "load/"],
}
BOXES = sorted(ALLOWED, key=len, reverse=True)
# Folders that still include each other.
CIRCLES = [
    {"kernels", *(f"kernels/cpu/{part}" for part in ("attention", "gemm", "gemm/int8", "prefetch", "rows", "simd", "tables"))},
]

# third-party header prefix -> paths that may include it
THIRD_PARTY = {
    "ucp/": ["actors/transport/fabric/"],
    "ucs/": ["actors/transport/fabric/"],
    "uct/": [],
    "caf/io/": ["tests/bench/"],
    "caf/": ["actors/", "services/", "tests/"],
    "boost/": ["services/", "load/", "tests/"],
    "nlohmann/": ["kernels/model/", "services/", "load/", "tests/"],
    "prometheus/": ["services/", "tests/"],
    "openssl/": ["actors/transport/wire/", "services/", "tests/"],
    "cuda": ["kernels/cuda/"],
    "cublas": ["kernels/cuda/"],
    "nccl": ["kernels/cuda/"],
    "Python.h": ["services/gateway/template/", "tests/unit/text/"],
    "zlib.h": ["services/gateway/http/", "tests/"],
    "immintrin.h": ["kernels/cpu/", "tests/bench/", "tests/unit/kernels/"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ROOTS = ("actors/", "kernels/", "services/", "load/", "tests/")
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh"}


def box_of(path):
    return next((box for box in BOXES if path.startswith(box + "/")), None)


def may_include(source, target):
    """Whether a file of the box `source` may include a file of the box `target`."""
    return target == source or any(target == folder or (folder[-1] == "/" and (target + "/").startswith(folder))
                                   for folder in ALLOWED[source])


def includes(root):
    """(path, line, header, whether it is one of ours) of each #include line"""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in SUFFIXES and name.startswith(ROOTS):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if match := INCLUDE.match(line):
                    yield name, number, match[2], match[1] == '"'


def circles(edges):
    """Sets of folders of which each reaches each other one. edges: folder -> folders"""
    reached = {}
    for start in edges:
        seen, todo = set(), [start]
        while todo:
            for folder in edges.get(todo.pop(), ()):
                if folder not in seen:
                    seen.add(folder)
                    todo.append(folder)
        reached[start] = seen
    return {frozenset(other for other in reached[folder] if folder in reached.get(other, ())) for folder in edges
            if folder in reached[folder]}


def violations(root):
    edges = {}
    for name, number, target, is_ours in includes(root):
        where = f"{name}:{number}: {target}"
        if is_ours and not (root / target).exists():
            yield f"{where}: not a path from the repository root"
        elif is_ours:
            source, included = box_of(name), box_of(target)
            if source is None or included is None or not may_include(source, included):
                yield f"{where}: {source} may not include this file of {included}"
                continue
            ends = [pathlib.PurePosixPath(file).parent.as_posix() for file in (name, target)]
            if ends[0] != ends[1] and source != "tests":
                edges.setdefault(ends[0], set()).add(ends[1])
        else:
            prefix = next((prefix for prefix in THIRD_PARTY if target.startswith(prefix)), None)
            if prefix and not any(name.startswith(place) for place in THIRD_PARTY[prefix]):
                yield f"{where}: only {', '.join(THIRD_PARTY[prefix]) or 'nobody'} may include {prefix}"
    for circle in circles(edges):
        if not any(circle <= known for known in CIRCLES):
            yield f"folders include one another: {', '.join(sorted(circle))}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    found = list(violations(root))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
