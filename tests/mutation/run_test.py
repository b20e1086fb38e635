#!/usr/bin/python3
"""The mutation check's own rules: refusals, what a run remembers, and when it succeeds."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults as catalogue
import run


def fault(name="one", old="a < b", new="a <= b", file="code.cpp"):
    return catalogue.Fault(name=name, area="engine", file=file, old=old, new=new, kind="bound", user="waits")


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.source = pathlib.Path(self.folder.name)
        (self.source / "code.cpp").write_text("if (a < b) f();\nif (c < d) g();\nif (c < d) h();\n")

    def tearDown(self):
        self.folder.cleanup()

    def test_one_that_fits_once_is_applied_there_alone(self):
        self.assertEqual(catalogue.applied(fault(), (self.source / "code.cpp").read_text()),
                         "if (a <= b) f();\nif (c < d) g();\nif (c < d) h();\n")
        self.assertEqual(catalogue.problems([fault()], self.source), [])

    def test_one_that_fits_nowhere_twice_or_in_no_file_is_named(self):
        wrong = [fault("nowhere", "x < y"), fault("twice", "c < d"), fault("no_file", file="gone.cpp"),
                 fault("nothing", "a < b", "a < b")]
        found = catalogue.problems(wrong, self.source)
        self.assertEqual(len(found), 4)
        for one, sentence in zip(wrong, found):
            self.assertIn(one.name if one.name != "no_file" else "gone.cpp", sentence)

    def test_two_of_one_name_are_named(self):
        self.assertEqual(catalogue.problems([fault(), fault()], self.source), ["one: 2 faults have this name"])

    def test_every_area_has_programs(self):
        self.assertEqual({one.area for one in catalogue.load()}, set(run.PROGRAMS))


class Results(unittest.TestCase):
    def report(self, outcomes):
        """@returns (content, text) for faults with these outcomes: noticed, survived, error, or none at all"""
        kinds = {"noticed": {"noticed_by": "t: case"}, "survived": {}, "error": {"error": "no type named x"}}
        faults = [fault(f"fault_{i}") for i in range(len(outcomes))]
        results = {run.key_of(one, "state"): kinds[outcome] for one, outcome in zip(faults, outcomes) if outcome}
        out = io.StringIO()
        return run.report(faults, results, "state", out), out.getvalue()

    def test_nine_of_ten_are_enough_and_the_tenth_is_listed(self):
        content, text = self.report(["noticed"] * 9 + ["survived"])
        self.assertTrue(content)
        self.assertIn("not noticed: engine/fault_9 (bound): waits", text)
        self.assertIn("9 of 10 noticed, 90 %", text)

    def test_eight_of_ten_are_not_enough(self):
        self.assertFalse(self.report(["noticed"] * 8 + ["survived"] * 2)[0])

    def test_what_does_not_compile_or_was_not_run_is_no_success(self):
        self.assertFalse(self.report(["noticed"] * 19 + ["error"])[0])
        self.assertFalse(self.report(["noticed"] * 19 + [None])[0])
        self.assertFalse(self.report([])[0])

    def test_a_result_counts_for_this_fault_in_this_state_only(self):
        keys = {run.key_of(fault(), "state"), run.key_of(fault(), "later"), run.key_of(fault(new="true"), "state")}
        self.assertEqual(len(keys), 3)

    def test_a_run_that_was_stopped_is_read_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results.jsonl"
            self.assertEqual(run.read_results(path), {})
            path.write_text('{"key": "k", "seconds": 1}\n{"key": "k", "noticed_by": "t"}\n')
            self.assertEqual(run.read_results(path), {"k": {"key": "k", "noticed_by": "t"}})


class Output(unittest.TestCase):
    def test_the_first_failure_is_named(self):
        text = "[ RUN      ] a.one\n[  FAILED  ] a.one (3 ms)\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] a.one\n"
        self.assertEqual(run.failure_in(text, 1), "a.one")
        self.assertEqual(run.failure_in("[  FAILED  ] p/a.two/3, where GetParam() = 4 (1 ms)\n", 1), "p/a.two/3")

    def test_a_crash_or_a_hang_is_told_of_the_test_that_ran(self):
        text = "[ RUN      ] a.one\n[       OK ] a.one (0 ms)\n[ RUN      ] a.two\n"
        self.assertEqual(run.failure_in(text, -11), "a.two (ends with status -11)")
        self.assertEqual(run.failure_in(text, None), "a.two (does not end)")
        self.assertEqual(run.failure_in("", 127), "the program (ends with status 127)")


class Choice(unittest.TestCase):
    def test_shards_share_everything_out(self):
        self.assertEqual(run.parse_shard("2/3"), (2, 3))
        with self.assertRaises(Exception):
            run.parse_shard("4/3")
        faults = [fault(f"fault_{i}") for i in range(10)]

        class Args:
            only, fault = [], []

        parts = []
        for index in (1, 2, 3):
            Args.shard = (index, 3)
            parts += run.chosen(faults, Args)
        self.assertEqual(sorted(parts), sorted(faults))

    def test_an_unknown_fault_is_an_error(self):
        class Args:
            only, fault, shard = [], ["none_such"], (1, 1)

        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            run.chosen([fault()], Args)

    def test_files_that_are_equal_keep_their_times(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder) / "source", pathlib.Path(folder) / "target"
            source.mkdir()
            target.mkdir()
            for name in ("same", "changed"):
                (source / name).write_text(name)
            run.copy_changed(source, target, ["same", "changed"])
            before = (target / "same").stat().st_mtime_ns
            (target / "changed").write_text("a fault")
            (target / "gone").write_text("removed since")
            run.copy_changed(source, target, ["same", "changed"])
            self.assertEqual((target / "same").stat().st_mtime_ns, before)
            self.assertEqual((target / "changed").read_text(), "changed")
            self.assertFalse((target / "gone").exists())


if __name__ == "__main__":
    unittest.main()
