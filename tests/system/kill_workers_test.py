#!/usr/bin/env python3
"""Nothing is lost: kill -9 of an expert worker and of an attention worker under 16 concurrent streams.

usage: kill_workers_test.py BINARIES MODEL_DIR WORK_DIR

Every stream must complete, chunk texts and logprobs byte for byte as in an undisturbed run, and the killed processes must
be back, under new pids, when the cluster is asked again.

Retries, hedges and replays heal most faults, so tokens alone would hide them. What the processes count must fit too: no
fault, no retries; after the death of an expert worker its batches are sent again, as retries or, where its connection
closes later than a hedge is due, as hedges, and none because an expert was not where the placement says; every worker
joins once, and once more for each death.
"""
import json
import pathlib
import sys
import threading
import time

from cluster import Cluster, counters, free_ports, run_all, total

NUM_STREAMS = 16
TOKENS = 160
NUM_ATTENTION, NUM_EXPERTS = 2, 3


def body(number):
    return {"prompt": [3 + (number * 37 + i * 11) % 240 for i in range(5 + 5 * number)], "max_tokens": TOKENS,
            "temperature": 0.8, "seed": number, "ignore_eos": True, "logprobs": 2, "return_token_ids": True}


def content(chunks):
    """Tokens and logprobs in order: what must not change; how they were cut into chunks may."""
    tokens, logprobs, finish = [], [], None
    for chunk in chunks:
        for choice in chunk["choices"]:
            tokens += choice.get("token_ids") or []
            lp = choice.get("logprobs")
            if lp:
                logprobs += list(zip(lp["tokens"], lp["token_logprobs"], map(json.dumps, lp["top_logprobs"])))
            finish = choice.get("finish_reason") or finish
    text = "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])
    return json.dumps([tokens, logprobs, finish, text])


class Workers:
    """What the processes count, by the ports that `up` gives out: scheduler, expert workers, attention workers."""

    def __init__(self):
        self.first = free_ports(1 + NUM_EXPERTS + NUM_ATTENTION)

    def scheduler(self):
        return [counters(self.first)]

    def experts(self):
        return [counters(self.first + 1 + i) for i in range(NUM_EXPERTS)]

    def attention(self):
        return [counters(self.first + 1 + NUM_EXPERTS + i) for i in range(NUM_ATTENTION)]


def expect_no_trouble(workers):
    """Nothing has failed since the processes started."""
    attention = workers.attention()
    assert total(attention, "expert_retries_total") == 0, attention
    batches = total(attention, "expert_round_trip_seconds_count")
    hedges = total(attention, "expert_hedges_total")
    assert batches > 0 and hedges <= max(2, batches / 50), f"{hedges} of {batches} batches were late"
    assert total(attention, "sequence_failures_total") == 0, attention
    assert total(workers.experts(), "expert_refusals_total") == 0, workers.experts()
    assert total(workers.scheduler(), "scheduler_refusals_total") == 0, workers.scheduler()


def expect_joins(cluster, deaths):
    """Every worker has joined once, and once more for each time that it was gone; the killed were gone once."""
    stood_still = bool(cluster.said("scheduler-late: "))  # then a lease may have run out, and a worker joined again
    for name in cluster.pids():
        if name.startswith("scheduler"):
            continue
        joined = len(cluster.said(rf"worker-joined: {name} at"))
        gone = len(cluster.said(rf"worker-gone: {name} at"))
        died = len(cluster.said(rf"worker-gone: {name} at \S+ has died"))
        assert joined == 1 + gone, f"{name} has joined {joined} times and was gone {gone} times"
        assert died == deaths.count(name) or stood_still, f"{name} has died {died} times"


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    run_dir = work / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    workers = Workers()
    with Cluster(binaries, "up", model, "--attention-workers", str(NUM_ATTENTION), "--expert-workers", str(NUM_EXPERTS),
                 "--replicas", "2", "--served-model-name", "m", "--worker-metrics-port", str(workers.first),
                 run_dir=run_dir, log=work / "up.log") as cluster:
        streams = [lambda n=n: content(cluster.stream("/v1/completions", body(n))) for n in range(NUM_STREAMS)]
        undisturbed = run_all(streams, workers=NUM_STREAMS)
        assert len(set(undisturbed)) == NUM_STREAMS
        expect_no_trouble(workers)

        progress, under_way = [0] * NUM_STREAMS, threading.Condition()

        def note(number):
            def on_chunk(count):
                with under_way:
                    progress[number] = count
                    under_way.notify_all()
            return on_chunk

        def wait_for(chunks):
            with under_way:
                assert under_way.wait_for(lambda: min(progress) >= chunks, timeout=60), progress

        before = cluster.pids()
        killed = []
        before_first, after_first = [], []  # the attention workers' counts before and after the kills

        def kill_two():
            wait_for(TOKENS // 10)
            before_first.extend(workers.attention())
            killed.append(("expert-1", cluster.kill("expert-1")))
            wait_for(TOKENS // 3)
            after_first.extend(workers.attention())
            killed.append(("attention-0", cluster.kill("attention-0")))

        watched = [lambda n=n: content(cluster.stream("/v1/completions", body(n), on_chunk=note(n)))
                   for n in range(NUM_STREAMS)]
        killer = threading.Thread(target=kill_two)
        killer.start()
        disturbed = run_all(watched, workers=NUM_STREAMS)
        killer.join()
        assert len(killed) == 2, "the streams ended before both workers were killed"
        different = [i for i in range(NUM_STREAMS) if disturbed[i] != undisturbed[i]]
        for i in different[:2]:
            print(f"stream {i}\n  undisturbed: {undisturbed[i][:1500]}\n  disturbed:   {disturbed[i][:1500]}")
        assert not different, f"{len(different)} of {NUM_STREAMS} streams differ"
        sent_again = sum(total(after_first, name) - total(before_first, name) for name in ("expert_retries_total", "expert_hedges_total"))
        assert sent_again > 0, f"the death of an expert worker went unnoticed: {after_first}"
        assert total(after_first, "sequence_failures_total") == 0, after_first

        end = time.monotonic() + 30
        while True:
            after = cluster.pids()
            if all(after.get(name, pid) != pid for name, pid in killed):
                break
            assert time.monotonic() < end, f"not restarted: {before} {after}"
            time.sleep(0.05)  # pids.json is a file of another process
        while any(len(cluster.said(rf"worker-joined: {name} at")) < 2 for name, _ in killed):
            assert time.monotonic() < end + 60, "who was started again has not joined"
            time.sleep(0.05)  # so is the log
        again = run_all(streams, workers=NUM_STREAMS)
        assert again == undisturbed, "the answers after the restarts differ"
        expect_joins(cluster, [name for name, _ in killed])
        attention, gateway = workers.attention(), [counters(cluster.port)]
        assert total(attention, "expert_retries_total", reason="not_hosted") == 0, attention
        assert total(workers.experts(), "expert_refusals_total", reason="not_hosted") == 0, workers.experts()
        assert total(gateway, "request_success_total") == 3 * NUM_STREAMS, gateway
        assert total(gateway, "admission_rejections_total") == 0, gateway
        print(f"{NUM_STREAMS} streams of {TOKENS} tokens, {[name for name, _ in killed]} killed: all as undisturbed; "
              f"{sent_again:.0f} expert batches were sent again")


if __name__ == "__main__":
    main()
