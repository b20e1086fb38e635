#!/usr/bin/python3
"""Measures a model's needs: memory of each role, KV cache of a token, bytes between the roles for a token and layer.

  measured_memory.py BINARIES MODEL_DIR [flags of troupe up, such as --expert-quant int8]

Starts a cluster of separate processes (one attention worker, two expert workers, TCP) in a network namespace of its own,
where nothing else sends; needs root. Memory is what a process holds alone, and its share of what several have mapped
(PSS); bytes are those of the loopback device, headers and acknowledgements included. Prints one line of a Markdown table.
"""
import json
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
from cluster import Cluster  # noqa: E402: found by the line above

KV_MEMORY = 256 << 20  # bytes
DECODED, PREFILLED = 200, 200  # tokens


def megabytes(pid):
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return int(re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) / 1000


def sent():
    """@returns bytes that the loopback device has carried"""
    return int(pathlib.Path("/sys/class/net/lo/statistics/tx_bytes").read_text(encoding="ascii"))


def carried(cluster, body):
    """@returns bytes on the way while a request is served"""
    before = sent()
    cluster.post("/v1/completions", body)
    return sent() - before


def main():
    if os.environ.get("TROUPE_SIZING") != "1":
        os.environ["TROUPE_SIZING"] = "1"
        alone = 'mount -t sysfs none /sys && ip link set lo up && exec "$@"'
        os.execvp("unshare", ["unshare", "--net", "--mount", "sh", "-c", alone, "sh", sys.executable, *sys.argv])
    del os.environ["TROUPE_SIZING"]  # the programs would report it as misspelt
    binaries, model, *flags = sys.argv[1:]
    config = json.loads((pathlib.Path(model) / "config.json").read_text(encoding="utf-8"))
    layers = config["num_hidden_layers"]
    with tempfile.TemporaryDirectory() as work:
        log = pathlib.Path(work) / "log"
        with Cluster(binaries, "up", model, "--attention-workers", "1", "--expert-workers", "2", "--kv-cache-memory",
                     str(KV_MEMORY), *flags, run_dir=pathlib.Path(work) / "run", log=log) as cluster:
            prompt = [5 + i % 50 for i in range(PREFILLED)]
            cluster.post("/v1/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True})
            one = carried(cluster, {"prompt": [5], "max_tokens": 1, "temperature": 0, "ignore_eos": True})
            decode = carried(cluster, {"prompt": [5], "max_tokens": 1 + DECODED, "temperature": 0, "ignore_eos": True}) - one
            prefill = carried(cluster, {"prompt": prompt, "max_tokens": 1, "temperature": 0, "ignore_eos": True}) - one
            memory = {name: megabytes(pid) for name, pid in cluster.pids().items()}
        tokens = int(re.search(r"KV cache (\d+) tokens", log.read_text(encoding="utf-8"))[1])
    folder = pathlib.Path(model).resolve()
    name = " ".join([folder.parent.name if folder.name == "model" else folder.name, *flags])
    columns = ["model", "gateway", "scheduler", "attention less KV", "experts, both", "KV per token",
               "decode, per token and layer", "prefill"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    experts = sum(size for worker, size in memory.items() if worker.startswith("expert"))
    used = KV_MEMORY / tokens
    print(f"| {name} | {memory['gateway-0']:.0f} MB | {memory['scheduler-0']:.0f} MB | {memory['attention-0']:.0f} MB |"
          f" {experts:.0f} MB | {used:.0f} B | {decode / DECODED / layers:.0f} B | {prefill / (PREFILLED - 1) / layers:.0f} B |")


if __name__ == "__main__":
    main()
