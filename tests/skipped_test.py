#!/usr/bin/python3
"""tests/skipped.py finds the tests that a ctest run has skipped, with their reasons."""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = """
add_test(NAME passes COMMAND true)
add_test(NAME fails COMMAND false)
add_test(NAME of_googletest COMMAND sh -c "printf 'x_test.cpp:27: Skipped\\\\nno AMX here\\\\n\\\\n[  SKIPPED ] x\\\\n'")
set_tests_properties(of_googletest PROPERTIES SKIP_REGULAR_EXPRESSION "\\\\[  SKIPPED \\\\]")
add_test(NAME of_ours COMMAND sh -c "echo 'skipped: npm is missing'; exit 77")
add_test(NAME silent COMMAND sh -c "exit 77")
set_tests_properties(of_ours silent PROPERTIES SKIP_RETURN_CODE 77)
"""

with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(x NONE)\nenable_testing()\n{CASES}")
    subprocess.run(["cmake", "-S", work, "-B", work / "build"], check=True, stdout=subprocess.DEVNULL)
    ran = subprocess.run(["ctest", "--test-dir", work / "build", "--output-junit", work / "report.xml"], check=False,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert ran.returncode != 0
    printed = subprocess.run([sys.executable, HERE / "skipped.py", work / "report.xml"], check=True, capture_output=True,
                             text=True).stdout
    assert printed == "of_googletest: no AMX here\nof_ours: npm is missing\nsilent: no reason given\n", printed
