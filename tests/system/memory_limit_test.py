#!/usr/bin/env python3
"""Workers in memory cgroups hold what fits their limit, and the survivor of two never gets more.

usage: memory_limit_test.py BINARIES MODEL_DIR WORK_DIR

Two expert workers have room for 0.95 of the experts each, by their cgroups alone. One is killed: the other takes what fits, a
request waits and gets 503, and nobody is killed. The worker comes back: all is served, with the same answers. Limits that leave
no room are refused at start, with the numbers. Needs a memory cgroup of its own; skipped where none can be made.
"""
import contextlib
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import threading

from cluster import Cluster, counters, free_port, total, wait_for
from memory_cgroup import MemoryCgroup

PATIENCE = 120  # seconds, for all of it
ROOMY = 512 << 20  # bytes
QUEUE_WAIT = 3  # seconds


class Processes:
    """Started by hand, each in a cgroup of its own or in none."""

    def __init__(self, binaries, work):
        self.binaries, self.work, self.running = binaries, work, {}
        self.secret = work / "secret"
        self.secret.touch(mode=0o600)
        self.secret.write_text(secrets.token_hex(32) + "\n", encoding="utf-8")

    def start(self, program, name, *flags, cgroup=None):
        log = open(self.work / f"{name}.log", "w", encoding="utf-8")
        self.running[name] = subprocess.Popen(
            [self.binaries / program, *map(str, flags), "--secret-file", self.secret, "--name", name], stdout=log,
            stderr=subprocess.STDOUT, preexec_fn=cgroup.enter if cgroup else None)

    def log(self, name):
        return (self.work / f"{name}.log").read_text(encoding="utf-8")

    def wait_for_line(self, name, text):
        def line():
            assert self.running[name].poll() is None, f"{name} has ended:\n{self.log(name)}"
            return next((line for line in self.log(name).splitlines() if text in line), None)

        return wait_for(f"'{text}' of {name}", line)

    def kill(self, name):
        self.running[name].kill()
        self.running.pop(name).wait()

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()


class Gateway(Cluster):
    """The client half of `Cluster`, for a gateway that somebody else has started."""

    def __init__(self, port, process):
        self.port, self.process = port, process


def expect_refusal(processes, program, name, *flags, cgroup, words):
    """A program ends with one line that has these words."""
    processes.start(program, name, *flags, cgroup=cgroup)
    status = processes.running.pop(name).wait(60)
    last = processes.log(name).splitlines()[-1]
    assert status == 1 and all(word in last for word in words), f"{name} ended with {status}:\n{processes.log(name)}"


def what_fits(processes, model, endpoint, scheduler_port, cgroup):
    """@returns bytes of an expert, and how many there are"""
    port = free_port()
    processes.start("troupe-expert", "probe", model, "--scheduler", endpoint, "--metrics-port", port, cgroup=cgroup)
    processes.wait_for_line("probe", "expert-room: the memory limit of the cgroup is 512 MiB")
    wait_for("all experts at the probe", lambda: total([counters(scheduler_port)], "experts_placed") > 0
             and total([counters(scheduler_port)], "experts_without_host") == 0)
    page, experts = [counters(port)], total([counters(scheduler_port)], "experts_placed")
    assert total(page, "experts_hosted") == experts
    processes.kill("probe")
    return total(page, "expert_memory_bytes") / experts, experts


def survive(processes, model, gateway, endpoint, ports, cgroups, size):
    def start_expert(name):
        processes.start("troupe-expert", name, model, "--scheduler", endpoint, "--threads", 1, "--metrics-port", ports[name],
                        cgroup=cgroups[name])

    start_expert("expert-0")
    start_expert("expert-1")
    gateway.wait_ready()
    body = {"prompt": [3, 5, 7, 11], "max_tokens": 12, "seed": 1, "temperature": 0.8, "logprobs": 2, "ignore_eos": True}
    undisturbed = gateway.post("/v1/completions", body)["choices"]

    processes.kill("expert-1")
    processes.wait_for_line("scheduler", "experts-without-room: 1 expert worker has room for")
    wait_for("all that fits", lambda: total([counters(ports["expert-0"])], "expert_memory_bytes")
             + size > total([counters(ports["expert-0"])], "expert_memory_limit_bytes"))

    def all_told():
        page = [counters(ports["scheduler"])]
        return total(page, "experts_without_room") == total(page, "experts_without_host") > 0

    wait_for("all others without a host", all_told)
    status, _, answer = gateway.request("POST", "/v1/completions", body)
    assert status == 503, (status, answer)
    held = [counters(ports["expert-0"])]
    assert total(held, "expert_memory_bytes") <= total(held, "expert_memory_limit_bytes")

    start_expert("expert-1")
    processes.wait_for_line("scheduler", "experts-have-room")
    gateway.wait_ready()
    assert gateway.post("/v1/completions", body)["choices"] == undisturbed
    log = processes.log("scheduler")
    assert log.count("experts-without-room") == 1 and "host-order-failed" not in log, log
    for name, cgroup in cgroups.items():
        assert cgroup.kills() == 0, f"{name} was killed for want of memory"


def main():
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        MemoryCgroup("try", ROOMY).__exit__()
    except OSError as error:
        print(f"no memory cgroup can be made here: {error}")
        return 77
    processes = Processes(binaries, work)
    watchdog = threading.Timer(PATIENCE, processes.end)
    watchdog.start()
    ports = {name: free_port() for name in ("first", "scheduler", "gateway", "expert-0", "expert-1")}
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(processes.end)  # before the cgroups

            def cgroup(name, limit):
                made = stack.enter_context(MemoryCgroup(name, limit))
                stack.callback(processes.end)
                return made

            roomy, slim, narrow = cgroup("roomy", ROOMY), cgroup("slim", 80 << 20), cgroup("narrow", 64 << 20)
            processes.start("troupe-scheduler", "first", "--listen", "127.0.0.1:0", "--metrics-port", ports["first"])
            first = processes.wait_for_line("first", "listening: ").split("listening: ")[1].strip()
            size, experts = what_fits(processes, model, first, ports["first"], roomy)
            processes.kill("first")
            processes.start("troupe-scheduler", "scheduler", "--listen", "127.0.0.1:0", "--expert-workers", 2,
                            "--max-queue-wait", QUEUE_WAIT, "--metrics-port", ports["scheduler"])
            endpoint = processes.wait_for_line("scheduler", "listening: ").split("listening: ")[1].strip()
            joined = ("--scheduler", endpoint, "--threads", 1)
            expect_refusal(processes, "troupe-expert", "full", model, *joined, cgroup=narrow,
                           words=["the memory limit of the cgroup is 64 MiB", "for experts, of which one takes", "raise the limit"])
            expect_refusal(processes, "troupe-expert", "greedy", model, *joined, "--expert-memory", "1G", cgroup=narrow,
                           words=["--expert-memory is 1024 MiB", "64 MiB"])
            expect_refusal(processes, "troupe-attention", "hungry", model, *joined, "--kv-cache-memory", "1G", cgroup=slim,
                           words=["--kv-cache-memory is 1024 MiB", "80 MiB"])
            processes.start("troupe-attention", "attention", model, *joined, cgroup=cgroup("attention", 160 << 20))
            processes.start("troupe-gateway", "gateway", model, "--scheduler", endpoint, "--port", ports["gateway"])
            wanted = int(experts * 0.95) * size
            # 64 MiB for the program, an eighth for waiting rows, four experts; cgroups count in pages.
            limit = ((64 << 20) + 4 * size + wanted * 17 / 16) * 8 / 7 + 8192
            cgroups = {name: cgroup(name, int(limit)) for name in ("expert-0", "expert-1")}
            survive(processes, model, Gateway(ports["gateway"], processes.running["gateway"]), endpoint, ports, cgroups, size)
            for name in list(processes.running):
                processes.running[name].send_signal(signal.SIGTERM)
                assert processes.running[name].wait(60) == 0, f"{name} ended badly:\n{processes.log(name)}"
    finally:
        watchdog.cancel()
    print("the survivor held what fits, and all was well when the other came back")
    return 0


if __name__ == "__main__":
    sys.exit(main())
