#!/usr/bin/env python3
"""tests/gpu/run.sh prints its table last, whatever its steps do. Programs of this test replace those that it runs.

usage: tests/gpu/run_script_test.py
"""
import os
import pathlib
import select
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "run.sh"
# Two ops, of which the first fails, both with a table, and a second step that never ends.
PROGRAMS = {
    "carried/gpu_check": """
case "$*" in
--list) printf 'norm\\nqkv\\n'; exit ;;
--measure) echo 'device 0: a test'; echo 'copy on the device: 3100 GB/s read and written; dense BF16 product: 700 TFLOP/s'; exit ;;
*"--limits 3100,700 "*" --only norm "*) echo 'WRONG norm, 3 rows: far off'; echo; echo 'op  checks'; echo 'norm  7'; exit 1 ;;
*"--limits 3100,700 "*" --only qkv "*) echo; echo 'op  checks'; echo 'qkv  8'; echo; echo 'time  us'; echo 'finish_qkv  9'; exit ;;
esac
exit 5""",
    "carried/gpu_model_check": "echo begun > \"$TEST_BEGUN\"; exec sleep 600",
    "path/nvidia-smi": "echo 'a GPU that is none'",
}

# Limits in seconds for the script's second step, its end, and its end after a failure: enough for a busy machine, together less
# than CTest's limit.
BEGIN_SECONDS = 30
END_SECONDS = 50
CLOSE_SECONDS = 25


class Script:
    def __init__(self, folder, seconds):
        self.begun = folder / "begun"
        self.log = folder / "output"
        for name, text in PROGRAMS.items():
            program = folder / name
            program.parent.mkdir(exist_ok=True)
            program.write_text("#!/bin/sh\n" + text + "\n")
            program.chmod(0o755)
        os.mkfifo(self.begun)
        # Opened for both ends, so that it does not wait for the step.
        self.begun_file = os.open(self.begun, os.O_RDWR | os.O_NONBLOCK)
        environment = dict(os.environ, TROUPE_GPU_CARRIED=str(folder / "carried"), TROUPE_GPU_SECONDS=str(seconds),
                           OUT=str(folder / "out"), TROUPE_GPU_LOGS=str(folder / "logs"), TEST_BEGUN=str(self.begun),
                           PATH=f"{folder / 'path'}:{os.environ['PATH']}")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([SCRIPT], env=environment, stdout=log, stderr=subprocess.STDOUT)

    def fail(self, what):
        raise AssertionError(f"{SCRIPT}: {what}; its output so far:\n{self.log.read_text()}")

    def wait_for_second_step(self):
        end = time.monotonic() + BEGIN_SECONDS
        while not select.select([self.begun_file], [], [], 0.2)[0]:
            if self.process.poll() is not None:
                self.fail(f"ended with status {self.process.returncode} before its second step")
            if time.monotonic() > end:
                self.fail(f"its second step has not begun within {BEGIN_SECONDS} s")

    def end(self):
        try:
            status = self.process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(f"has not ended within {END_SECONDS} s")
        return status, self.log.read_text().splitlines()

    def close(self):
        """Ends what a failed test has left running; the script ends its step when it is told to end itself."""
        self.process.terminate()
        try:
            self.process.wait(timeout=CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.begun_file)


class RunScriptTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def start(self, seconds):
        self.logs = pathlib.Path(self.folder.name) / "out" / "logs.tar.gz"
        script = Script(pathlib.Path(self.folder.name), seconds)
        self.addCleanup(script.close)
        return script

    def line(self, lines, begin):
        found = [line for line in lines if line.startswith(begin)]
        self.assertEqual(len(found), 1, "\n".join(lines))
        return found[0]

    def expect_table(self, lines):
        """The tables of both ops as one, and the verdict as the very last line."""
        at = lines.index("op  checks")
        self.assertEqual(lines[at + 1:at + 3], ["norm  7", "qkv  8"])
        self.assertIn("finish_qkv  9", lines[lines.index("time  us"):at])
        self.assertIn("norm: FAILED with status 1", self.line(lines, "check "))
        self.assertNotIn("qkv", self.line(lines, "check "))
        with tarfile.open(self.logs) as logs:
            self.assertIn("./check-norm.log", logs.getnames())
            self.assertIn("./check-qkv.log", logs.getnames())
        self.assertEqual([path.name for path in self.logs.parent.iterdir()], [self.logs.name])
        self.assertRegex(lines[-1], r"^all steps took \d+ s, SOMETHING IS WRONG$")

    def test_a_failing_and_a_hanging_step_leave_the_table_last(self):
        script = self.start(20)  # a step needs 10 of these to begin
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
