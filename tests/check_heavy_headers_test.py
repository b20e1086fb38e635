#!/usr/bin/env python3
"""Adds sources that reach heavy headers, and expects check_heavy_headers.py to count them and to print the path."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_heavy_headers  # noqa: E402


class planted_sources(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("services/page.hpp", "#include <nlohmann/json.hpp>\n")
        self.write("services/a/page.cpp", '#include "services/page.hpp"\n')
        self.write("services/a/forward.cpp", "#include <nlohmann/json_fwd.hpp>\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_check(self, ceilings):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = check_heavy_headers.main(self.root, ceilings)
        return status, out.getvalue()

    def test_a_source_above_the_ceiling_is_named_with_its_way(self):
        status, text = self.run_check({})
        self.assertEqual(status, 1)
        self.assertIn("services/a: 1 sources reach json, 0 may", text)
        self.assertIn("services/a/page.cpp -> services/page.hpp -> nlohmann/json.hpp", text)

    def test_as_many_as_the_ceiling_pass_and_one_more_does_not(self):
        self.assertEqual(self.run_check({"services/a": {"json": 1}})[0], 0)
        self.write("services/a/other.cpp", "#include <nlohmann/json.hpp>\n")
        self.assertEqual(self.run_check({"services/a": {"json": 1}})[0], 1)

    def test_headers_that_include_one_another_end(self):
        self.write("actors/x.hpp", '#include "actors/y.hpp"\n')
        self.write("actors/y.hpp", '#include "actors/x.hpp"\n#include <caf/binary_serializer.hpp>\n')
        self.write("actors/x.cpp", '#include "actors/x.hpp"\n')
        self.write("actors/y.cpp", '#include "actors/y.hpp"\n')
        self.assertEqual(len(check_heavy_headers.count(self.root)["actors", "serializer"]), 2)

    def test_kinds_are_told_apart(self):
        self.write("load/net.cpp", "#include <boost/asio/ip/tcp.hpp>\n#include <prometheus/counter.h>\n")
        self.assertEqual({kind for folder, kind in check_heavy_headers.count(self.root) if folder == "load"}, {"asio", "prometheus"})


if __name__ == "__main__":
    unittest.main()
