#!/usr/bin/env python3
"""Expert weights are read after a server listens. Damaged ones end it with status 1 and one line that says where; where
they lay in the weights' cache, the next start has made them again.

usage: damaged_weights_test.py BINARIES MODEL_DIR WORK_DIR
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request

PATIENCE = 120  # seconds
EXTENT = "layers.1.experts.5"


def main():
    binaries, model, work = (pathlib.Path(a) for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    packed, cache = work / "packed", work / "cache"
    subprocess.run([binaries / "troupe", "quantize", model, "--to", "int8", "--out", packed], check=True)
    damage(packed / "model.troupe")

    log = ended(binaries, packed)
    assert f"model.troupe: extent '{EXTENT}' is damaged" in log, log
    assert (packed / "model.troupe").exists(), "what the user made must stay"

    flags = ["--expert-quant", "int8", "--weights-cache", cache]
    expected = answer(binaries, model, *flags)
    file, = cache.glob("*.troupe")
    damage(file)
    log = ended(binaries, model, *flags)
    assert f"{file.name}: extent '{EXTENT}' is damaged" in log and "the next start writes it again" in log, log
    assert not file.exists(), "a damaged file was left in the cache"
    assert answer(binaries, model, *flags) == expected, "the cache that was written again gives another answer"
    print("damaged experts ended the server with status 1; the cache was written again by the next start")


def damage(file):
    """Turns a bit of the extent round."""
    data = bytearray(file.read_bytes())
    index = json.loads(data[data.rindex(b"\0") + 1 :])  # the last thing in the file, behind zeros
    extent, = (e for e in index["extents"] if e["name"] == EXTENT)
    data[extent["offset"] + extent["bytes"] // 2] ^= 1
    file.write_bytes(data)


def serve(binaries, model, *flags):
    process = subprocess.Popen([binaries / "troupe", "serve", model, "--port", "0", "--threads", "1", *flags],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    return process, watchdog


def ended(binaries, model, *flags):
    """What a server says that must end by itself, with status 1."""
    process, watchdog = serve(binaries, model, *flags)
    log = process.stdout.read()
    status = process.wait()
    watchdog.cancel()
    assert status == 1, f"ended with {status}:\n{log}"
    return log


def answer(binaries, model, *flags):
    process, watchdog = serve(binaries, model, *flags)
    try:
        url = next(line.split("listening: ")[1].strip() for line in process.stdout if "listening: " in line)
        body = {"model": model.name, "prompt": [1, 2, 3], "max_tokens": 8, "temperature": 0, "logprobs": 1}
        request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)["choices"]
    finally:
        process.send_signal(signal.SIGTERM)
        log = process.stdout.read()
        status = process.wait()
        watchdog.cancel()
        assert status == 0, f"ended with {status} when told to stop:\n{log}"


if __name__ == "__main__":
    main()
