#!/usr/bin/env python3
"""Who may include whom: services -> actors -> {actors/transport, kernels/model -> kernels}.

usage: tests/check_includes.py [ROOT]

Reads the #include lines of the C++ sources under ROOT (default: the checkout) and prints every one that the table
below does not allow. Exit status 1 when there is one.
"""
import pathlib
import re
import sys

# box -> boxes it may include (itself always). The first box whose path a file starts with is the file's box.
ALLOWED = {
    "actors/transport": [],
    "actors": ["actors/transport", "kernels/model", "kernels"],
    "kernels/model": ["kernels"],
    "kernels": [],
    "services/options": [],
    "services": ["services/options", "actors", "actors/transport", "kernels/model", "kernels"],
    "load": ["services/options"],  # it talks HTTP; only its flags are parsed as everybody's
    "tests": ["services", "services/options", "actors", "actors/transport", "kernels/model", "kernels", "load"],
}
BOXES = sorted(ALLOWED, key=len, reverse=True)

# third-party header prefix -> paths that may include it
THIRD_PARTY = {
    "ucp/": ["actors/transport/"],
    "ucs/": ["actors/transport/"],
    "uct/": [],
    "caf/io/": ["tests/bench/"],
    "caf/": ["actors/", "services/", "tests/"],
    "boost/": ["services/", "load/", "tests/"],
    "nlohmann/": ["kernels/model/", "actors/", "services/", "load/", "tests/"],
    "prometheus/": ["services/", "tests/"],
    "openssl/": ["actors/transport/", "services/", "tests/"],
    "cuda": ["kernels/cuda/"],
    "nccl": ["kernels/cuda/"],
    "Python.h": ["services/gateway/text/"],
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
                source, included = box_of(name), box_of(target)
                if included != source and included not in ALLOWED[source]:
                    yield f"{where}: {source} may not include {included}"
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
