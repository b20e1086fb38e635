#!/usr/bin/env python3
"""The README's recipe for two machines, in two network namespaces.

usage: two_hosts_test.py BINARIES MODEL_DIR WORK_DIR

Needs root and iproute2; exits with 77 (skipped) where namespaces cannot be made.
"""
import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import time

A, B = "10.231.17.1", "10.231.17.2"


def run(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def wait_until_running(namespace, device):
    """A link that was just set up is not running yet, and UCX uses none that is not."""
    end = time.monotonic() + 10
    while True:
        shown = subprocess.run(["ip", "-n", namespace, "-j", "link", "show", "dev", device], capture_output=True, check=True)
        if json.loads(shown.stdout)[0]["operstate"] == "UP":
            return
        assert time.monotonic() < end, shown.stdout
        time.sleep(0.02)  # the kernel's link watch has no event for a script to await


@contextlib.contextmanager
def two_namespaces():
    tag = f"{os.getpid() % 100000}"
    hosts = {A: f"troupe-a{tag}", B: f"troupe-b{tag}"}
    try:
        try:
            for name in hosts.values():
                run("ip", "netns", "add", name)
            run("ip", "link", "add", f"tra{tag}", "netns", hosts[A], "type", "veth", "peer", "name", f"trb{tag}", "netns",
                hosts[B])
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"skipped: network namespaces cannot be made here: {error}")
            sys.exit(77)
        for address, device in ((A, f"tra{tag}"), (B, f"trb{tag}")):
            run("ip", "-n", hosts[address], "addr", "add", f"{address}/24", "dev", device)
            run("ip", "-n", hosts[address], "link", "set", device, "up")
            run("ip", "-n", hosts[address], "link", "set", "lo", "up")
        for address, device in ((A, f"tra{tag}"), (B, f"trb{tag}")):
            wait_until_running(hosts[address], device)
        yield hosts
    finally:
        for name in hosts.values():
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def ask(namespace, body):
    """One completion, asked by a client inside the namespace."""
    answer = subprocess.run(
        ["ip", "netns", "exec", namespace, "curl", "-sS", f"http://{A}:8000/v1/completions", "-H",
         "Content-Type: application/json", "-d", json.dumps(body)], capture_output=True, check=True, timeout=60)
    return json.loads(answer.stdout)


def main():
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    secret = work / "secret"
    secret.write_text(secrets.token_hex(32) + "\n")
    secret.chmod(0o600)
    common = ["--secret-file", str(secret), "--data-ports", "7100-7199"]
    with two_namespaces() as hosts, contextlib.ExitStack() as stack:
        processes = {}

        def start(address, program, *flags):
            log = stack.enter_context(open(work / f"{program}-{address}.log", "w"))
            argv = ["ip", "netns", "exec", hosts[address], str(binaries / program), *flags, *common]
            processes[program] = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

        try:
            start(A, "troupe-scheduler", "--listen", f"{A}:7000")
            start(A, "troupe-attention", str(model), "--scheduler", f"{A}:7000", "--listen", f"{A}:7001")
            start(A, "troupe-gateway", str(model), "--scheduler", f"{A}:7000", "--listen", f"{A}:7002", "--host", A,
                  "--served-model-name", "m")
            start(B, "troupe-expert", str(model), "--scheduler", f"{A}:7000", "--listen", f"{B}:7001")
            end = time.monotonic() + 120
            while subprocess.run(["ip", "netns", "exec", hosts[A], "curl", "-fsS", "-o", "/dev/null",
                                  f"http://{A}:8000/ready"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
                assert time.monotonic() < end, "not ready in time"
                assert all(p.poll() is None for p in processes.values()), {n: p.poll() for n, p in processes.items()}
                time.sleep(0.1)  # polls another process
            body = {"prompt": [5, 6, 7, 8], "max_tokens": 24, "temperature": 0.8, "seed": 3, "ignore_eos": True}
            first = ask(hosts[B], body)
            assert first["usage"]["completion_tokens"] == 24, first
            assert ask(hosts[A], body)["choices"][0]["text"] == first["choices"][0]["text"]
            print("two hosts: 24 tokens, the same asked from either host")
        except BaseException:
            for path in sorted(work.glob("*.log")):
                sys.stderr.write(f"== {path.name}\n{path.read_text()[-3000:]}")
            raise
        finally:
            for process in processes.values():
                process.send_signal(signal.SIGTERM)
            statuses = {name: process.wait(60) for name, process in processes.items()}
        assert all(status == 0 for status in statuses.values()), statuses


if __name__ == "__main__":
    main()
