#!/usr/bin/env python3
"""Counts the sources that reach headers that cost seconds to compile, with a ceiling for each folder.

usage: tests/check_heavy_headers.py [ROOT]

Follows the #include lines of each .cpp under services/, load/, actors/ and kernels/ through the project's own headers, and counts
the sources of a folder that reach Asio or Beast, nlohmann's whole json.hpp, CAF's serializers, and prometheus-cpp. Prints each
folder that has more of them than CEILINGS allows, with the chain of includes of one; exit status 1 when there is one. A ceiling
is today's count: lower it when the count falls, and raise it only for a source that cannot do without.
tests/check_heavy_headers_test.py tests it.
"""
import pathlib
import re
import sys

# name -> pattern of an included header's path
KINDS = {
    "asio": re.compile(r"boost/(asio|beast)\b"),
    "json": re.compile(r"nlohmann/json\.hpp$"),
    "serializer": re.compile(r"caf/(binary_)?(de)?serializer\.hpp$"),
    "prometheus": re.compile(r"prometheus/"),
}
FOLDERS = ("services/", "load/", "actors/", "kernels/")
# folder of the source -> kind -> most sources that may reach it; 0 if not listed.
CEILINGS = {
    "actors/protocol": {"serializer": 1},
    "actors/collective": {"serializer": 2},
    "actors/transport/caf": {"serializer": 2},
    "actors/transport/wire": {"serializer": 3},
    "kernels/model": {"json": 3},
    "load": {"asio": 4, "json": 9},
    "services/asio": {"asio": 3},
    "services/cluster": {"prometheus": 1},
    "services/client": {"asio": 3, "json": 1},
    "services/gateway": {"asio": 1, "json": 1},
    "services/gateway/http": {"asio": 19, "json": 5, "prometheus": 1},
    "services/gateway/http/endpoints": {"asio": 9, "json": 5},
    "services/gateway/openai": {"json": 9},
    "services/gateway/text": {"json": 8},
    "services/history": {"json": 1},
    "services/metrics": {"asio": 1, "prometheus": 8},
    "services/options": {"json": 2},
    "services/pages": {"json": 2},
    "services/timeline": {"json": 2},
    "services/top": {"asio": 2, "json": 2},
    "services/troupe": {"asio": 2, "json": 5},
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.M)


class Tree:
    def __init__(self, root):
        self.root = root
        self.reached = {}  # path -> kind -> chain of includes

    def chains(self, path):
        """kind -> the includes that lead from `path` to a header of the kind."""
        if path in self.reached:
            return self.reached[path]
        found = self.reached[path] = {}  # ends a circle
        for name in INCLUDE.findall((self.root / path).read_text()):
            for kind, pattern in KINDS.items():
                if pattern.search(name):
                    found.setdefault(kind, [name])
            if (self.root / name).is_file():
                for kind, chain in self.chains(name).items():
                    found.setdefault(kind, [name, *chain])
        return found


def count(root):
    """(folder, kind) -> chains, one for each source that reaches the kind."""
    tree, counts = Tree(root), {}
    for source in sorted(root.rglob("*.cpp")):
        path = source.relative_to(root).as_posix()
        if path.startswith(FOLDERS):
            for kind, chain in tree.chains(path).items():
                counts.setdefault((path.rpartition("/")[0], kind), []).append([path, *chain])
    return counts


def main(root, ceilings):
    counts, faults = count(root), 0
    for (folder, kind), chains in sorted(counts.items()):
        allowed = ceilings.get(folder, {}).get(kind, 0)
        if len(chains) > allowed:
            faults += 1
            print(f"{folder}: {len(chains)} sources reach {kind}, {allowed} may; one is {' -> '.join(chains[-1])}")
    print(f"{faults} folders above their ceilings")
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        table = {}
        for (folder, kind), chains in sorted(count(pathlib.Path(__file__).resolve().parent.parent).items()):
            table.setdefault(folder, {})[kind] = len(chains)
        for folder, kinds in table.items():
            print(f'    "{folder}": {{{", ".join(f"{chr(34)}{k}{chr(34)}: {v}" for k, v in kinds.items())}}},')
        sys.exit(0)
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent), CEILINGS))
