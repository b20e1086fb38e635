#!/usr/bin/python3
"""Workers whose weights take long to load replace others, and an absent scheduler takes no gateway out of service.

usage: handover_test.py BINARIES MODEL_DIR WORK_DIR

A small library, which is made here and loaded before the new workers' own, lets them read no expert's weights until a file is
there: so loading takes as long as the test wants. Requests run all the time, and each must be answered as without any of this.

- Both hosts of all experts are told to leave while the two that come in their place load: they serve on, are not ready, and end
  with status 0 when the others have everything. A worker that loads is not ready.
- The scheduler is replaced while a worker waits for its relief: the worker asks the next one.
- The scheduler is stopped: gateways stay ready, say that the cluster is not, and answer new requests with 503 and Retry-After.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from cluster import free_port, wait_for
from processes import Gateway, Processes
from workload import essence

PATIENCE = 400  # seconds, for all of it
CLIENTS = 3

# Huge pages are requested for weights before they are read; for those of experts, a computing thread does it.
GATE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int madvise(void* pages, size_t size, int advice) {
  if (advice == MADV_HUGEPAGE && syscall(SYS_gettid) != getpid())
    while (access(getenv("GATE"), F_OK) != 0)
      usleep(20000);
  return (int)syscall(SYS_madvise, pages, size, advice);
}
"""

LOADING = (503, "not ready: has yet to load the experts that it is to hold")
BODIES = [{"prompt": [3 + i, 5, 7 + i, 11], "max_tokens": 24, "seed": i, "temperature": 0.8, "logprobs": 2, "ignore_eos": True,
           "return_token_ids": True} for i in range(6)]


class Load:
    """Clients that ask all the time; each answer must be the one that was given before."""

    def __init__(self, gateway):
        self.gateway, self.answers, self.errors, self.over = gateway, 0, [], threading.Event()
        self.expected = [essence(gateway.post("/v1/completions", body)) for body in BODIES]
        self.threads = [threading.Thread(target=self.ask, args=(number,)) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self, number):
        while not self.over.is_set() and not self.errors:
            at = number % len(BODIES)
            number += CLIENTS + 1
            try:
                answer = essence(self.gateway.post("/v1/completions", BODIES[at]))
                assert answer == self.expected[at], f"{answer}, not {self.expected[at]}"
                self.answers += 1
            except BaseException as error:  # raised by check()
                self.errors.append(error)

    def go_on(self):
        """Waits for so many answers that some of them were asked for from now on."""
        wanted = self.answers + 2 * CLIENTS
        wait_for("requests are answered", lambda: self.errors or self.answers >= wanted)
        if self.errors:
            raise self.errors[0]

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


class Stage:
    def __init__(self, binaries, model, work):
        self.model, self.work, self.ports, self.pages = model, work, {}, {}
        self.processes = Processes(binaries, work)
        source, self.library = work / "gate.c", work / "gate.so"
        source.write_text(GATE, encoding="utf-8")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, source], check=True)
        self.endpoint = f"127.0.0.1:{free_port()}"

    def scheduler(self, name):
        self.processes.start("troupe-scheduler", name, "--listen", self.endpoint, "--expert-workers", 2)
        self.processes.wait_for_line(name, "listening: ")

    def worker(self, program, name, *flags, gate=None):
        """@returns its file, which lets it read, where it is behind a gate"""
        port = self.ports[name] = free_port()
        # UCX would replace the library's madvise by its own.
        env = {"LD_PRELOAD": str(self.library), "GATE": str(self.work / gate), "UCX_MEM_MMAP_HOOK_MODE": "none"} if gate else None
        self.processes.start(program, name, self.model, "--scheduler", self.endpoint, "--threads", 1, "--metrics-port", port,
                             *flags, env=env)
        return self.work / gate if gate else None

    def ask(self, name, path="/ready"):
        """@returns (status, text), or (0, "") while it does not answer"""
        try:
            status, _, text = Gateway(self.ports[name], None).request("GET", path, timeout=5)
            return status, text.decode().strip()
        except OSError:
            return 0, ""

    def wait_until_ready(self, *names):
        for name in names:
            wait_for(f"{name} is ready", lambda name=name: self.ask(name)[0] == 200, patience=120)

    def tell_to_leave(self, name):
        self.processes.running[name].send_signal(signal.SIGTERM)
        wait_for(f"{name} leaves", lambda: self.ask(name) == (503, "not ready: leaves the cluster"))

    def is_here(self, name):
        return self.processes.running[name].poll() is None

    def wait_until_gone(self, name):
        assert self.processes.running[name].wait(60) == 0, self.processes.log(name)
        assert "left-early" not in self.processes.log(name), self.processes.log(name)


def both_hosts_leave_while_others_load(stage, load):
    gates = [stage.worker("troupe-expert", name, gate=f"gate-{name}") for name in ("new-0", "new-1")]
    for name in ("new-0", "new-1"):
        stage.processes.wait_for_line("scheduler", f"worker-joined: {name}")
        wait_for(f"{name} is told of", lambda name=name: stage.ask(name) == LOADING)
    for name in ("old-0", "old-1"):
        stage.tell_to_leave(name)
    load.go_on()
    assert all(stage.is_here(name) for name in ("old-0", "old-1"))
    assert all(stage.ask(name) == LOADING for name in ("new-0", "new-1"))
    gates[0].touch()
    load.go_on()
    gates[1].touch()
    stage.wait_until_ready("new-0", "new-1")
    for name in ("old-0", "old-1"):
        stage.wait_until_gone(name)
    load.go_on()


def scheduler_is_replaced_while_a_worker_leaves(stage, load):
    gate = stage.worker("troupe-expert", "late", gate="gate-late")
    stage.processes.wait_for_line("scheduler", "worker-joined: late")
    for name in ("new-0", "new-1"):
        stage.tell_to_leave(name)
    load.go_on()
    load.stop()  # without a scheduler new requests are refused after a while, which is not tested here
    stage.processes.running["scheduler"].send_signal(signal.SIGTERM)
    assert stage.processes.running["scheduler"].wait(60) == 0
    stage.scheduler("next")
    for name in ("new-0", "new-1", "late"):
        stage.processes.wait_for_line("next", f"worker-joined: {name}")
    wait_for("the cluster is ready again", lambda: stage.ask("gateway", "/cluster/ready")[0] == 200)
    assert all(stage.is_here(name) for name in ("new-0", "new-1"))
    again = Load(load.gateway)
    again.go_on()
    gate.touch()
    stage.wait_until_ready("late")
    for name in ("new-0", "new-1"):
        stage.wait_until_gone(name)
    again.go_on()
    again.stop()
    return again.answers


def scheduler_stands_still(stage, gateway):
    scheduler = stage.processes.running["next"].pid
    os.kill(scheduler, signal.SIGSTOP)
    end = time.monotonic() + 10  # while it is absent
    refused = 0
    try:
        wait_for("the cluster is not ready", lambda: stage.ask("gateway", "/cluster/ready")[0] == 503)
        told = json.loads(stage.ask("gateway", "/cluster/ready")[1])
        assert told == {"ready": False, "reason": "the scheduler is away"}, told
        while time.monotonic() < end:
            assert stage.ask("gateway")[0] == 200 and stage.ask("late")[0] == 200
            status, headers, body = gateway.request("POST", "/v1/completions", BODIES[0])
            assert status == 503 and headers["Retry-After"], (status, body)
            refused += 1
    finally:
        os.kill(scheduler, signal.SIGCONT)
    wait_for("the cluster is ready", lambda: stage.ask("gateway", "/cluster/ready")[0] == 200)
    gateway.post("/v1/completions", BODIES[0])
    return refused


def main():
    if not shutil.which("cc"):
        print("there is no C compiler")
        sys.exit(77)
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    stage = Stage(binaries, model, work)
    processes = stage.processes
    watchdog = threading.Timer(PATIENCE, processes.end)
    watchdog.start()
    load = None
    try:
        stage.scheduler("scheduler")
        stage.worker("troupe-expert", "old-0")
        processes.wait_for_line("scheduler", "worker-joined: old-0")
        wait_for("the first worker waits for the first placement", lambda: stage.ask("old-0") == LOADING)
        stage.worker("troupe-expert", "old-1")
        stage.worker("troupe-attention", "attention")
        stage.ports["gateway"] = free_port()
        processes.start("troupe-gateway", "gateway", model, "--scheduler", stage.endpoint, "--port", stage.ports["gateway"])
        gateway = Gateway(stage.ports["gateway"], processes.running["gateway"])
        gateway.wait_ready()
        stage.wait_until_ready("old-0", "old-1", "attention")
        load = Load(gateway)
        both_hosts_leave_while_others_load(stage, load)
        more = scheduler_is_replaced_while_a_worker_leaves(stage, load)
        refused = scheduler_stands_still(stage, gateway)
        for name in ("gateway", "attention", "late", "next"):
            processes.running[name].send_signal(signal.SIGTERM)
            assert processes.running[name].wait(60) == 0, f"{name} ended badly:\n{processes.log(name)}"
    except BaseException:
        for name in processes.running:
            sys.stderr.write(f"--- {name}\n{processes.log(name)[-3000:]}\n")
        raise
    finally:
        watchdog.cancel()
        if load:
            load.over.set()
        processes.end()
    print(f"{load.answers} answers while both hosts of all experts were replaced by such that loaded, {more} while the scheduler was "
          f"replaced too: all as before; {refused} requests were told 503 while the scheduler stood still, and the gateway stayed ready")


if __name__ == "__main__":
    main()
