#!/usr/bin/env python3
"""Does tests/gpu/run.sh print its table last, whatever its steps do? Programs of this test stand for those that it runs.

usage: tests/gpu/run_script_test.py
"""
import os
import pathlib
import signal
import subprocess
import tarfile
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "run.sh"
# A failing first step that has a table, and a second one that never ends.
PROGRAMS = {
    "carried/gpu_check": "echo 'WRONG norm, 3 rows: far off'; echo 'device 0: a test'; echo 'op  checks'; echo 'norm  7'; exit 1",
    "carried/gpu_model_check": "echo begun > \"$TEST_BEGUN\"; exec sleep 600",
    "path/nvidia-smi": "echo 'a GPU that is none'",
}


class Script:
    def __init__(self, folder, seconds):
        self.begun = folder / "begun"
        for name, text in PROGRAMS.items():
            program = folder / name
            program.parent.mkdir(exist_ok=True)
            program.write_text("#!/bin/sh\n" + text + "\n")
            program.chmod(0o755)
        os.mkfifo(self.begun)
        environment = dict(os.environ, TROUPE_GPU_CARRIED=str(folder / "carried"), TROUPE_GPU_SECONDS=str(seconds),
                           OUT=str(folder / "out"), TEST_BEGUN=str(self.begun),
                           PATH=f"{folder / 'path'}:{os.environ['PATH']}")
        self.process = subprocess.Popen([SCRIPT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_for_second_step(self):
        self.begun.read_text()

    def end(self):
        output, _ = self.process.communicate(timeout=120)
        return self.process.returncode, output.splitlines()


class RunScriptTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def start(self, seconds):
        self.logs = pathlib.Path(self.folder.name) / "out" / "logs.tar.gz"
        return Script(pathlib.Path(self.folder.name), seconds)

    def line(self, lines, begin):
        found = [line for line in lines if line.startswith(begin)]
        self.assertEqual(len(found), 1, "\n".join(lines))
        return found[0]

    def expect_table(self, lines):
        """The first step's table, and the verdict as the very last line."""
        self.assertIn("norm  7", lines[lines.index("op  checks"):])
        self.assertIn("FAILED with status 1", self.line(lines, "check "))
        with tarfile.open(self.logs) as logs:
            self.assertIn("./check.log", logs.getnames())
        self.assertRegex(lines[-1], r"^all steps took \d+ s, SOMETHING IS WRONG$")

    def test_a_failing_and_a_hanging_step_leave_the_table_last(self):
        script = self.start(12)
        script.wait_for_second_step()
        status, lines = script.end()
        self.assertEqual(status, 1)
        self.expect_table(lines)
        self.assertIn("WRONG norm, 3 rows: far off", lines)
        self.assertIn("a GPU that is none", lines)
        self.assertIn("s were over", self.line(lines, "models "))
        for step in ("mixed ", "serve ", "check-again "):
            self.assertIn("NOT RUN", self.line(lines, step))

    def test_a_signal_ends_the_step_and_leaves_the_table_last(self):
        script = self.start(600)
        script.wait_for_second_step()
        script.process.send_signal(signal.SIGTERM)
        status, lines = script.end()
        self.assertEqual(status, 1)
        self.expect_table(lines)
        self.assertIn("by a signal", self.line(lines, "stopped "))


if __name__ == "__main__":
    unittest.main()
