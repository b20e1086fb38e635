"""Starts and stops Troupe for the system tests, as users do. Standard library only."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

READY_DEADLINE = 120  # seconds until a cluster must be ready
STOP_DEADLINE = 60
# No load balancer needs to notice that a server stops. A variable, not a flag: builds without it start all the same. Tests
# neither wait 2 s for a plan, nor leave one in the user's cache folder.
QUICK_STOP = {"TROUPE_LAME_DUCK": "0", "TROUPE_KERNEL_PLAN": "default"}


# Below Linux's ephemeral ports (ip_local_port_range: from 32768 by default), which any connection may take between the check
# and the start of the program that will listen.
PORTS = range(20000, 32000)


def free_ports(count):
    """@returns the first of so many ports in a row that are free now"""
    for _ in range(1000):
        first = random.choice(PORTS[:-count])
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError(f"no {count} free ports in a row in {PORTS}")


def free_port():
    return free_ports(1)


def counters(port):
    """What a process counts: {(family without its prefix, its labels as {name: value} items): value}"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    result = {}
    for name, labels, value in re.findall(r"^troupe_(\w+)(?:\{(.*)\})? (\S+)$", page, re.MULTILINE):
        result[name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))] = float(value)
    return result


def total(pages, family, **labels):
    """The sum of a family over processes, of those series that have these labels."""
    return sum(value for page in pages for (name, has), value in page.items()
               if name == family and set(labels.items()) <= has)


def wait_for(what, question, patience=60):
    """Asks another process until the answer is true. @returns the answer"""
    end = time.monotonic() + patience
    while not (answer := question()):
        assert time.monotonic() < end, f"{what}: not within {patience} s"
        time.sleep(0.02)  # polls another process
    return answer


class Cluster:
    """A running `troupe serve` or `troupe up`; a context manager that stops it."""

    tls = None  # an SSL context, where it speaks TLS

    def __init__(self, binaries, command, model, *flags, run_dir=None, log=None, port=None, env=None, trusted=None):
        """env: variables beside those of this process; trusted: file of the certificate that it shows, where it speaks TLS"""
        self.port = free_port() if port is None else port
        if trusted:
            self.tls = ssl.create_default_context(cafile=trusted)
        self.run_dir = pathlib.Path(run_dir) if run_dir else None
        argv = [str(pathlib.Path(binaries) / "troupe"), command, str(model), "--port", str(self.port), *flags]
        if self.run_dir:
            argv += ["--run-dir", str(self.run_dir)]
        self.log_path = log
        self.log = open(log, "w") if log else subprocess.DEVNULL
        self.process = subprocess.Popen(argv, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        env={**os.environ, **QUICK_STOP, **(env or {})})

    def __enter__(self):
        try:
            self.wait_ready()
        except BaseException:
            self.stop(check=False)
            self.show_log()
            raise
        return self

    def __exit__(self, kind, value, trace):
        self.stop(check=kind is None)
        if kind is not None:
            self.show_log()

    def show_log(self):
        if self.log_path:
            sys.stderr.write(pathlib.Path(self.log_path).read_text()[-8000:])

    def wait_ready(self, deadline=READY_DEADLINE):
        end = time.monotonic() + deadline
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with status {self.process.returncode}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.request("GET", "/ready")[0] == 200:
                    return
            if time.monotonic() > end:
                raise AssertionError("the server was not ready in time")
            time.sleep(0.02)  # polls another process

    def stop(self, check=True):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                if check:
                    raise AssertionError("SIGTERM did not stop the server in time") from None
        if check and self.process.returncode != 0:
            raise AssertionError(f"the server ended with status {self.process.returncode}")

    def pids(self):
        return json.loads((self.run_dir / "pids.json").read_text())

    def said(self, pattern):
        """What is in its log so far: all matches."""
        return re.findall(pattern, pathlib.Path(self.log_path).read_text(), re.MULTILINE)

    def kill(self, name):
        pid = self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        return pid

    def connect(self, timeout=120):
        if self.tls:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, timeout=120):
        """@returns (status, headers, body bytes)"""
        connection = self.connect(timeout)
        try:
            payload = json.dumps(body).encode() if body is not None else None
            connection.request(method, path, payload, {"Content-Type": "application/json"} if body is not None else {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def post(self, path, body, timeout=120):
        status, _, raw = self.request("POST", path, body, timeout)
        answer = json.loads(raw)
        assert status == 200, f"{path}: {status} {answer}"
        return answer

    def stream(self, path, body, timeout=120, on_chunk=None):
        """@returns the list of SSE chunks, [DONE] checked and left out"""
        connection = self.connect(timeout)
        chunks = []
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}).encode(),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, (response.status, response.read())
            for line in response:
                line = line.strip()
                if not line.startswith(b"data: "):
                    continue
                if line == b"data: [DONE]":
                    return chunks
                chunks.append(json.loads(line[6:]))
                assert "error" not in chunks[-1], chunks[-1]
                if on_chunk:
                    on_chunk(len(chunks))
            raise AssertionError("the stream ended without [DONE]")
        finally:
            connection.close()


def run_all(tasks, workers):
    """Runs callables on `workers` threads; @returns their results in order, or raises the first error."""
    results, errors, numbers, lock = [None] * len(tasks), [], iter(range(len(tasks))), threading.Lock()

    def work():
        while not errors:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                results[number] = tasks[number]()
            except BaseException as error:  # raised by the caller below
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
