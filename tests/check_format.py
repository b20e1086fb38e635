#!/usr/bin/env python3
"""Checks that these C++ sources are in the project's format. Prints each difference; exit status 1 when there is one.

usage: tests/check_format.py [--fix] FILE...

Beyond clang-format's own check: single statements have no braces, as clang-format's RemoveBracesLLVM has it (that option formats
lambdas otherwise, so it is applied first and the repository's .clang-format second), and integer types of the standard library
are named with std::. tests/check_format_test.py tests it.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

STYLE = pathlib.Path(__file__).resolve().parents[1] / ".clang-format"
UNQUALIFIED = re.compile(r"(?<![\w:.])(?:::)?(size_t|ptrdiff_t|u?int(?:8|16|32|64)_t|uintptr_t)\b(?!\s*\()")


BATCH = 40  # files per process of clang-format


def clang_format(style, files):
    batches = [files[n:n + BATCH] for n in range(0, len(files), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda batch: subprocess.run(["clang-format", f"--style=file:{style}", "-i", *batch], check=True), batches))


def qualified(text):
    return "\n".join(line if line.lstrip().startswith("#include") else UNQUALIFIED.sub(r"std::\1", line)
                     for line in text.split("\n"))


def formatted(files, folder):
    """The texts of the files as they should be."""
    copies = [folder / f"{number}" / path.name for number, path in enumerate(files)]
    for path, copy in zip(files, copies):
        copy.parent.mkdir()
        copy.write_text(qualified(path.read_text(encoding="utf-8")), encoding="utf-8")
    without_braces = folder / "without_braces.yml"
    without_braces.write_text(STYLE.read_text() + "RemoveBracesLLVM: true\n")
    for style in without_braces, STYLE:
        clang_format(style, copies)
    return [copy.read_text(encoding="utf-8") for copy in copies]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="write the files as they should be")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    different = False
    with tempfile.TemporaryDirectory() as folder:
        for path, wanted in zip(arguments.files, formatted(arguments.files, pathlib.Path(folder))):
            present = path.read_text(encoding="utf-8")
            if present != wanted and arguments.fix:
                path.write_text(wanted, encoding="utf-8")
            elif present != wanted:
                different = True
                print("\n".join(difflib.unified_diff(present.splitlines(), wanted.splitlines(), str(path), "as it should be", n=0,
                                                     lineterm="")))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
