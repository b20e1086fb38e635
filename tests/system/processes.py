"""Starts the programs of a cluster one by one, as on several hosts."""
import os
import secrets
import subprocess
import time

from cluster import QUICK_STOP, Cluster


class Processes:
    """Started by hand, as on several hosts."""

    def __init__(self, binaries, work):
        self.binaries, self.work, self.running = binaries, work, {}
        self.secret = work / "secret"
        self.secret.unlink(missing_ok=True)
        self.secret.touch(mode=0o600)
        self.secret.write_text(secrets.token_hex(32) + "\n", encoding="utf-8")

    def start(self, program, name, *flags, env=None):
        """env: variables beside those of this process"""
        log = open(self.work / f"{name}.log", "w", encoding="utf-8")
        self.running[name] = subprocess.Popen(
            [self.binaries / program, *map(str, flags), "--secret-file", self.secret, "--name", name], stdout=log,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, **QUICK_STOP, **(env or {})})

    def log(self, name):
        return (self.work / f"{name}.log").read_text(encoding="utf-8")

    def wait_for_line(self, name, text, patience=180):
        end = time.monotonic() + patience
        while text not in self.log(name):
            assert self.running[name].poll() is None, f"{name} has ended:\n{self.log(name)}"
            assert time.monotonic() < end, f"{name} has not said '{text}':\n{self.log(name)}"
            time.sleep(0.02)  # polls another process's log
        return next(line for line in self.log(name).splitlines() if text in line)

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()


class Gateway(Cluster):
    """The client half of `Cluster`, for a gateway that somebody else has started."""

    def __init__(self, port, process):
        self.port, self.process = port, process
