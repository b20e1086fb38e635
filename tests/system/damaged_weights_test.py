#!/usr/bin/env python3
"""Expert weights are read after a server listens. Damaged ones end it with status 1 and one line that says where; where
they lay in the weights' cache, the next start has made them again, which `troupe up` is by itself. Whoever waits for a
cache that another process fills, or converts weights, ends at SIGTERM with status 0. A model whose weights are not
numbers is refused.

usage: damaged_weights_test.py BINARIES MODEL_DIR WORK_DIR
"""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

from cluster import QUICK_STOP, Cluster

PATIENCE = 120  # seconds
EXTENT = "layers.1.experts.5"


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    packed, cache = work / "packed", work / "cache"
    quantize_after_a_killed_one(binaries, model, packed)
    flags = ["--served-model-name", "m", "--expert-quant", "int8", "--weights-cache", str(cache)]

    def answer(command, *more):
        with Cluster(binaries, command, model, *flags, *more, log=work / f"{command}.log") as cluster:
            return cluster.post("/v1/completions", {"model": "m", "prompt": [1, 2, 3], "max_tokens": 8,
                                                    "temperature": 0, "logprobs": 1})["choices"]

    damage(packed / "model.troupe")
    log = fails(Cluster(binaries, "serve", packed, log=work / "packed.log"))
    assert f"model.troupe: extent '{EXTENT}' is damaged" in log, log
    assert (packed / "model.troupe").exists(), "what the user made must stay"

    expected = answer("serve")
    file, = cache.glob("*.troupe")
    damage(file)
    log = fails(Cluster(binaries, "serve", model, *flags, log=work / "cache.log"))
    assert f"{file.name}: extent '{EXTENT}' is damaged" in log and "the next start writes it again" in log, log
    assert not file.exists(), "a damaged file was left in the cache"
    assert answer("serve") == expected, "the cache that was written again gives another answer"

    damage(file)
    assert answer("up", "--expert-workers", "2") == expected, "a cluster gives another answer"
    log = (work / "up.log").read_text(encoding="utf-8")
    assert "experts-unusable" in log and "ended with status 1" in log, f"no worker found the damage:\n{log}"

    for command in ("serve", "up"):
        waits_until_told(binaries, command, model, flags, file)
        told_before_it_loads(binaries, command, model)
    not_numbers(binaries, model, work)
    print("damaged experts ended servers with status 1; caches were written again by the next start")


def quantize_after_a_killed_one(binaries, model, out):
    """Which had the same process id, as in containers: bash leaves what that one left, and becomes the program."""
    script = 'mkdir "$3.$$.tmp" && cp "$2/config.json" "$3.$$.tmp" && exec "$1" quantize "$2" --to int8 --out "$3"'
    subprocess.run(["bash", "-c", script, "bash", binaries / "troupe", model, out], check=True)
    left = list(out.parent.glob("*.tmp"))
    assert not left, f"left behind: {left}"


def damage(file):
    """Turns a bit of the extent round."""
    data = bytearray(file.read_bytes())
    index = json.loads(data[data.rindex(b"\0") + 1 :])  # the last thing in the file, behind zeros
    extent, = (e for e in index["extents"] if e["name"] == EXTENT)
    data[extent["offset"] + extent["bytes"] // 2] ^= 1
    file.write_bytes(data)


def fails(cluster):
    """What a server says that must end by itself, with status 1."""
    try:
        status = cluster.process.wait(PATIENCE)
    finally:
        cluster.process.kill()
    log = pathlib.Path(cluster.log_path).read_text(encoding="utf-8")
    assert status == 1, f"ended with {status}:\n{log}"
    return log


def waits_until_told(binaries, command, model, flags, file):
    file.unlink(missing_ok=True)
    with open(f"{file}.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen([binaries / "troupe", command, model, "--port", "0", *flags],
                                   env=os.environ | QUICK_STOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        log = ""
        for line in process.stdout:
            log += line
            if "waiting-for-cache" in line:
                process.send_signal(signal.SIGTERM)
        status = process.wait()
        watchdog.cancel()
    assert status == 0 and "waiting-for-cache" in log and "stopped before" in log, f"ended with {status}:\n{log}"
    assert not file.exists(), "who waited has written the file"


def told_before_it_loads(binaries, command, model):
    """SIGTERM lies there, blocked, from the program's first instruction on."""

    def tell():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)

    done = subprocess.run([binaries / "troupe", command, model, "--port", "0"], env=os.environ | QUICK_STOP,
                          preexec_fn=tell, capture_output=True,
                          text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, (command, done.returncode, done.stderr)
    assert "listening: http" not in done.stderr, f"{command} began to serve:\n{done.stderr}"
    if command == "serve":
        at_once = ("stopped before the weights of the attention side were loaded", "before the start was over")
        assert any(text in done.stderr for text in at_once), done.stderr


def not_numbers(binaries, model, work):
    """Weights that no quantization looks at."""
    broken = work / "broken"
    shutil.copytree(model, broken)
    file, = broken.glob("*.safetensors")
    data = bytearray(file.read_bytes())
    header_bytes = int.from_bytes(data[:8], "little")
    tensor = json.loads(data[8 : 8 + header_bytes])["model.norm.weight"]
    first, last = (8 + header_bytes + offset for offset in tensor["data_offsets"])
    data[first:last] = b"\xff" * (last - first)  # a NaN of every type of float
    file.write_bytes(data)
    log = fails(Cluster(binaries, "serve", broken, log=work / "broken.log"))
    assert "tensor 'model.norm.weight', row 0, column 0 is not a finite number" in log, log


if __name__ == "__main__":
    main()
