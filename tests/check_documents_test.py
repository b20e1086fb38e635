#!/usr/bin/env python3
"""Plants documents that name files, some of which do not exist, and expects check_documents.py to find those."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_documents  # noqa: E402


class planted_documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ["actors/engine/engine.hpp", "actors/gateway/gateway.hpp", "actors/gateway/gateway_metrics.hpp", "docs/api.md",
                     "tests/run.sh", "README.md", "CONTRIBUTING.md", "docs/ARCHITECTURE.md"]:
            self.write(name, "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def missing_of(self, text, document="docs/ARCHITECTURE.md"):
        self.write(document, text)
        return [line.rsplit(" ", 1)[-1] for line in check_documents.missing(self.root)]

    def test_finds_no_fault_in_names_that_exist(self):
        self.assertEqual(self.missing_of("`actors/engine/engine.hpp`, `actors/`, `engine.hpp`, `README.md`, [page](api.md#part), "
                                         "`*_metrics.hpp`, `actors/AREA/engine.hpp`, `build/x/y.txt`, `a::b`, `engine`\n"), [])

    def test_finds_files_folders_and_links_that_do_not_exist(self):
        self.assertEqual(self.missing_of("`actors/engine.hpp` `actors/none/` `no.hpp` `*_none.hpp` [page](none.md)\n"),
                         ["actors/engine.hpp", "actors/none/", "no.hpp", "*_none.hpp", "none.md"])

    def test_takes_names_in_a_row_of_folders_as_files_of_these(self):
        self.assertEqual(self.missing_of("| `actors/gateway/` | sessions | `gateway.hpp`, `engine.hpp` |\n"), ["engine.hpp"])

    def test_reads_the_page_for_contributors(self):
        self.assertEqual(self.missing_of("`tests/run.sh` `tests/none.sh`\n", "CONTRIBUTING.md"), ["tests/none.sh"])


if __name__ == "__main__":
    unittest.main()
