#!/usr/bin/env python3
"""check_format.py finds the described faults, and fixes them."""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parent / "check_format.py"
GOOD = """\
#include <cstddef>

int half(std::size_t n) {
  if (n == 0)
    return 1;
  return static_cast<int>(n / 2);
}
"""
BAD = {
    "braces": GOOD.replace("if (n == 0)\n    return 1;", "if (n == 0) {\n    return 1;\n  }"),
    "a type": GOOD.replace("std::size_t", "size_t"),
    "a type of the global namespace": GOOD.replace("std::size_t", "::size_t"),
    "spaces": GOOD.replace("n / 2", "n/2"),
}


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)


with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "half.cpp")
    path.write_text(GOOD)
    assert run(path).returncode == 0, run(path).stdout
    for what, text in BAD.items():
        path.write_text(text)
        found = run(path)
        assert found.returncode == 1 and str(path) in found.stdout, (what, found)
        assert run("--fix", path).returncode == 0 and path.read_text() == GOOD, what
