#!/usr/bin/env python3
"""A worker that can never be part of a cluster reports why and ends with status 1; the cluster continues
without it.

usage: refused_worker_test.py BINARIES MODEL_DIR WORK_DIR

An attention worker with an int8 KV cache asks to join one whose cache is the model's: another numerics class.
"""
import pathlib
import secrets
import signal
import subprocess
import sys
import threading

PATIENCE = 60  # seconds


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    secret = work / "secret"
    secret.unlink(missing_ok=True)
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(32) + "\n", encoding="utf-8")
    running = []

    def start(program, *flags):
        process = subprocess.Popen([binaries / program, *flags, "--secret-file", secret], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        running.append(process)
        return process

    # Ends the waits for log lines below, which have no deadline.
    watchdog = threading.Timer(PATIENCE, lambda: [process.kill() for process in running])
    watchdog.start()
    try:
        scheduler = start("troupe-scheduler", "--listen", "127.0.0.1:0")
        endpoint = line_with(scheduler, "listening: ").split("listening: ")[1].strip()
        first = start("troupe-attention", model, "--scheduler", endpoint, "--name", "first")
        line_with(scheduler, "worker-joined: first")
        second = start("troupe-attention", model, "--scheduler", endpoint, "--name", "second", "--kv-cache-dtype", "int8")
        log = second.stdout.read()
        assert second.wait() == 1, f"a refused worker ended with {second.returncode}:\n{log}"
        reason = next((line for line in log.splitlines() if "refused" in line), "")
        assert "+kv-int8/r" in reason and "of the cluster have" in reason, f"no reason that names both classes:\n{log}"
        assert first.poll() is None and scheduler.poll() is None, "the others must stay"
        for process in (first, scheduler):
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
            assert process.wait() == 0, f"{process.args[0]} ended with {process.returncode} when told to stop"
    finally:
        watchdog.cancel()
        for process in running:
            process.kill()
    print("a worker of another numerics class was refused, with status 1; the others stopped with 0")


def line_with(process, text):
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"{process.args[0]} ended without '{text}'")


if __name__ == "__main__":
    main()
