#!/usr/bin/env python3
"""Checks that the files named in docs/ARCHITECTURE.md and CONTRIBUTING.md exist.

usage: tests/check_documents.py [ROOT]

Checked is each name in backticks that looks like a file or ends in a slash, and each relative link. A name with a slash is a path from
the root, from the document's folder, or from the folder in the first cell of its table row; one without a slash is a file anywhere, in a
row that begins with folders: in one of them. `*` and words in capitals stand for anything. Prints what is missing; exit status 1 when
something is. tests/check_documents_test.py tests it.
"""
import fnmatch
import pathlib
import re
import sys

DOCUMENTS = ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"]
FOLDERS = ["actors", "deploy", "docs", "helm", "kernels", "load", "services", "tests"]
ENDINGS = "hpp|cpp|cuh|cu|py|sh|md|txt|toml|yaml"
NAME = re.compile(rf"`((?:[\w.*-]+/)*(?:[\w.*-]+\.(?:{ENDINGS})|(?<=/)))`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def known_paths(root):
    """All files and, with a slash at the end, folders of the repository."""
    found = {path.name for path in root.iterdir() if path.is_file()}
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            found.add(path.relative_to(root).as_posix() + ("/" if path.is_dir() else ""))
        found.add(folder + "/")
    return found


def is_known(name, bases, paths, names):
    pattern = re.sub(r"\b[A-Z]{2,}\b(?!\.md|\.txt)", "*", name)
    if pattern.startswith("build/"):
        return True
    if "/" not in pattern and bases == [""]:
        return bool(fnmatch.filter(names, pattern))
    if "*" not in pattern:
        return any(base + pattern in paths for base in bases)
    return any(fnmatch.filter(paths, base + pattern) for base in bases)


def missing(root):
    paths = known_paths(root)
    names = {path.rsplit("/", 1)[-1] for path in paths}
    for document in DOCUMENTS:
        home = (root / document).parent
        for number, line in enumerate((root / document).read_text().splitlines(), 1):
            first = re.match(r"\| (`[\w./-]+/`(?:, `[\w./-]+/`)*) \|", line)
            folders = re.findall(r"`([^`]+)`", first.group(1)) if first else []
            bases = [""] + folders + ([home.relative_to(root).as_posix() + "/"] if home != root else [])
            for name in NAME.findall(line):
                where = bases if "/" in name else folders or [""]
                if not is_known(name, where, paths, names):
                    yield f"{document}:{number}: there is no {name}"
            for link in LINK.findall(line):
                if not (home / link).exists():
                    yield f"{document}:{number}: there is no {link}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = list(missing(root))
    print("\n".join(found) if found else "the files that documents name exist")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
