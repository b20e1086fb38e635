#!/usr/bin/python3
"""Prints the tests that ctest has skipped, a line each: name, and the test's reason.

  skipped.py REPORT...      files of ctest --output-junit
"""

import re
import sys
import xml.etree.ElementTree

# GoogleTest writes the reason below the place of the GTEST_SKIP; our own programs write "skipped: REASON".
REASONS = (re.compile(r"^\S+:\d+: Skipped\n(.+)$", re.MULTILINE), re.compile(r"^skipped: (.+)$", re.MULTILINE))


def reason(output):
    for pattern in REASONS:
        found = pattern.search(output)
        if found:
            return found[1].strip()
    return "no reason given"


def skipped(report):
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is not None:
            yield f"{case.get('name')}: {reason(case.findtext('system-out') or '')}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for line in skipped(name):
            print(line)
