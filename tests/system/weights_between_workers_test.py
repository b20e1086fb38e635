#!/usr/bin/env python3
"""An expert worker on a host without weight files gets experts from others, and serves when one of them is killed.

usage: weights_between_workers_test.py BINARIES MODEL_DIR WORK_DIR

Two expert workers read the model folder; a third has a folder with config.json only. Every expert is to have three hosts, so it
gets all of them. One of the two that have files is killed for good: all answers stay byte-equal. What has come over the network
is compared by its counters: each byte that was received was sent, none came damaged.
"""
import pathlib
import shutil
import signal
import sys
import threading
import time

from cluster import counters, free_port, total
from processes import Gateway, Processes

PATIENCE = 180  # seconds, for all of it


def main():
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    bare = work / "config_only"
    bare.mkdir()
    shutil.copy(model / "config.json", bare)
    processes = Processes(binaries, work)
    watchdog = threading.Timer(PATIENCE, processes.end)
    watchdog.start()
    ports = {name: free_port() for name in ("files-0", "files-1", "bare")}
    try:
        processes.start("troupe-scheduler", "scheduler", "--listen", "127.0.0.1:0", "--replicas", 3, "--expert-workers", 2)
        endpoint = processes.wait_for_line("scheduler", "listening: ").split("listening: ")[1].strip()
        joined = ("--scheduler", endpoint, "--threads", 1)
        # The first one waits until the cluster has a model.
        processes.start("troupe-expert", "bare", bare, *joined, "--weights-from", "peers", "--metrics-port", ports["bare"])
        processes.wait_for_line("bare", "waiting-for-model")
        for name in ("files-0", "files-1"):
            processes.start("troupe-expert", name, model, *joined, "--metrics-port", ports[name])
        processes.start("troupe-attention", "attention", model, *joined)
        port = free_port()
        processes.start("troupe-gateway", "gateway", model, "--scheduler", endpoint, "--port", port)
        gateway = Gateway(port, processes.running["gateway"])
        gateway.wait_ready()
        for name in ports:
            processes.wait_for_line("scheduler", f"worker-joined: {name}")

        bodies = [{"prompt": [3 + i, 5, 7 + i, 11], "max_tokens": 12, "seed": i, "temperature": 0.8, "logprobs": 2,
                   "ignore_eos": True} for i in range(8)]

        def answers():
            return [gateway.post("/v1/completions", body)["choices"] for body in bodies]

        undisturbed = answers()
        end = time.monotonic() + PATIENCE
        everything = total([counters(ports["files-0"])], "experts_hosted")
        assert everything > 0
        while total([counters(ports["bare"])], "experts_hosted") != everything:
            assert time.monotonic() < end, "the worker without files lacks experts:\n" + processes.log("scheduler")
            assert answers() == undisturbed
        assert answers() == undisturbed
        pages = [counters(ports[name]) for name in ports]
        received = total(pages[2:], "expert_weights_received_bytes_total")
        assert received > 0
        assert received == total(pages[:2], "expert_weights_sent_bytes_total"), pages
        assert not total(pages, "expert_fetches_total", outcome="damaged"), pages

        processes.running["files-0"].send_signal(signal.SIGKILL)
        processes.wait_for_line("scheduler", "worker-gone: files-0")
        for _ in range(3):
            assert answers() == undisturbed, "an answer is another one since a worker was killed"
        rows = total([counters(ports["bare"])], "expert_rows_total")
        assert rows > 0, "the worker without files has computed nothing"
        for name in ("gateway", "attention", "bare", "files-1", "scheduler"):
            processes.running[name].send_signal(signal.SIGTERM)
            assert processes.running[name].wait(60) == 0, f"{name} ended badly:\n{processes.log(name)}"
    except BaseException:
        for name in processes.running:
            sys.stderr.write(f"--- {name}\n{processes.log(name)[-3000:]}\n")
        raise
    finally:
        watchdog.cancel()
        processes.end()
    print(f"a worker without weight files received {received:.0f} bytes of experts and computed {rows:.0f} rows; "
          f"the answers stayed byte-equal when a worker with files was killed")


if __name__ == "__main__":
    main()
