#!/usr/bin/env python3
"""What processes read at their start, what they report meanwhile, and how an interrupted start continues.

usage: start_test.py BINARIES MODEL_DIR WORK_DIR

Models are sparse files, as large as real ones, that take no room on the disk. What was read of a file is what the page cache has of
it, so read-ahead counts as well.
"""
import contextlib
import ctypes
import fcntl
import http.client
import json
import math
import mmap
import os
import pathlib
import secrets
import shutil
import signal
import struct
import subprocess
import sys

from cluster import QUICK_STOP, counters, free_port, wait_for

PATIENCE = 120  # seconds
MB = 1_000_000
COMPANIONS = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja")


def main():
    binaries, model, work = (pathlib.Path(a).absolute() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    secret = work / "secret"
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(32) + "\n", encoding="utf-8")
    large = sparse_model(work / "large", model, {"num_hidden_layers": 48, "num_experts": 128, "hidden_size": 2048,
                                                 "moe_intermediate_size": 768})
    bare = work / "bare"  # without weights
    bare.mkdir()
    for name in ("config.json", *COMPANIONS):
        if (model / name).exists():
            shutil.copy(model / name, bare)

    with Programs(binaries, secret, work) as programs:
        reads_of_a_large_model(programs, large)
        a_gateway_without_weights(programs, model, bare, large)
        told_while_it_waits(programs, model, work)
        goes_on_where_it_was_killed(programs, model, work)


def reads_of_a_large_model(programs, folder):
    weights = folder / "model.safetensors"
    scheduler = programs.start("troupe-scheduler", "--listen", "127.0.0.1:0", "--expert-workers", "2", name="idle")
    endpoint = scheduler.line("listening: ").split("listening: ")[1]
    ahead = read_ahead_of(weights)

    drop(weights)
    gateway = programs.start("troupe-gateway", folder, "--scheduler", endpoint, "--port", "0", name="gateway-large")
    gateway.line("listening: ")
    read = cached(weights) + gateway.read_calls()
    assert read < 50 * MB, f"a gateway has read {read} bytes at its start"
    assert cached(weights) == 0, "a gateway has looked at the weights"
    gateway.stop()

    # An expert worker that holds nothing yet; the second one finds the fingerprint beside the model.
    figures = []
    for attempt in ("first", "second"):
        drop(weights)
        worker = programs.start("troupe-expert", folder, "--scheduler", endpoint, "--device", "cpu", name=f"expert-{attempt}")
        worker.line("listening: ")
        figures.append(cached(weights))
        worker.stop()
    tensors = 18_432 + 48 * 9 + 3
    assert figures[0] < tensors * 2 * 4096 + 10 * MB, f"the fingerprint has read {figures[0]} bytes"
    assert figures[1] < 10 * MB, f"the kept fingerprint was not used: {figures[1]} bytes were read"
    scheduler.stop()
    print(f"{weights.stat().st_size / 1e9:.0f} GB in 18,432 expert matrices, read-ahead {ahead}: a gateway has read "
          f"{read / MB:.1f} MB, the first expert worker {figures[0] / MB:.1f} MB of the weights before it held any, the second "
          f"{figures[1] / MB:.1f} MB")


def a_gateway_without_weights(programs, model, bare, other):
    scheduler = programs.start("troupe-scheduler", "--listen", "127.0.0.1:0", name="scheduler")
    endpoint = scheduler.line("listening: ").split("listening: ")[1]
    at_scheduler = ("--scheduler", endpoint)
    stranger = programs.start("troupe-gateway", other, *at_scheduler, "--port", "0", name="gateway-of-another")
    stranger.line("listening: ")
    workers = [programs.start(f"troupe-{role}", model, *at_scheduler, "--device", "cpu", name=role)
               for role in ("attention", "expert")]
    gateway = programs.start("troupe-gateway", bare, *at_scheduler, "--port", "0", name="gateway-bare")
    port = int(gateway.line("listening: http://").split("listening: http://")[1].split(",")[0].rsplit(":", 1)[1])
    wait_for("a gateway without weights is ready", lambda: page(port, "/ready")[0] == 200, PATIENCE)
    body = json.dumps({"model": "bare", "prompt": [1, 2, 3], "max_tokens": 4, "ignore_eos": True})
    status, answer = page(port, "/v1/completions", body)
    assert status == 200 and json.loads(answer)["usage"]["completion_tokens"] == 4, answer
    shown = json.loads(page(port, "/cluster")[1])["scheduler"]["fingerprint"]
    assert len(shown) == 32, shown
    assert stranger.wait() == 1, "a gateway of another model must end with an error"
    assert "refused: " in stranger.log() and "config.json of another model" in stranger.log(), stranger.log()
    for process in (gateway, *workers, scheduler):
        process.stop()
    print("a gateway without weights served, one with another model's config.json was refused")


def told_while_it_waits(programs, model, work):
    """Another process packs: the pages are there, and SIGTERM is heard."""
    cache = work / "cache"
    flags = ("--scheduler", "127.0.0.1:9", "--weights-cache", cache, "--device", "cpu")
    first = programs.start("troupe-attention", model, *flags, name="packs")
    first.line("listening: ")
    first.stop()
    packed, = cache.glob("*.troupe")
    packed.unlink()
    packed.with_name(packed.name + ".partial").write_bytes(b"x" * 3 * MB)  # as the other process would
    for role in ("attention", "expert"):
        with open(f"{packed}.lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            port = free_port()
            process = programs.start(f"troupe-{role}", model, *flags, "--metrics-port", port, name=f"waiting-{role}")
            process.line("waiting-for-cache")
            says = wait_for("it says how far the other one is", lambda: "3 MB" in page(port, "/health")[1] and page(port, "/health"))
            assert says[0] == 200 and says[1].startswith(f"loading: another process packs {packed}: 3 MB"), says
            status, text = page(port, "/ready")
            assert status == 503 and text.startswith("not ready: loading: another process packs"), (status, text)
            loaded, = (value for (name, _), value in counters(port).items() if name == "weights_loaded_bytes")
            assert loaded == 3 * MB, loaded
            process.stop()
    print("processes that wait for a cache said so on /health and /ready, and stopped when told")


def goes_on_where_it_was_killed(programs, model, work):
    """SIGKILL in the middle of packing: the next start reads what is missing of the weights."""
    folder = sparse_model(work / "middle", model, {"num_hidden_layers": 4, "num_experts": 32, "hidden_size": 1024,
                                                   "moe_intermediate_size": 768})
    weights = folder / "model.safetensors"
    size = weights.stat().st_size
    cache = work / "cache-middle"
    flags = ("--scheduler", "127.0.0.1:9", "--weights-cache", cache, "--device", "cpu", "--threads", "1",
             "--weight-coding", "none")  # as many bytes packed as in the checkpoint
    port = free_port()
    first = programs.start("troupe-expert", folder, *flags, "--metrics-port", port, name="killed")
    says = wait_for("the packing is told", lambda: "loading: packing weights" in (health := page(port, "/health")[1]) and health)
    assert " %, " in says and " MB" in says, says
    journals = lambda: list(cache.glob("*.journal"))
    wait_for("half of it is noted", lambda: journals() and noted(journals()[0]) > size // 2)
    first.process.kill()
    first.process.wait()
    done = noted(journals()[0])
    assert not list(cache.glob("*.troupe")), "whole or not at all"
    drop(weights)
    second = programs.start("troupe-expert", folder, *flags, name="goes-on")
    second.line("listening: ")
    read = cached(weights)
    second.stop()
    assert len(list(cache.glob("*.troupe"))) == 1 and not journals() and not list(cache.glob("*.partial"))
    left = size - done
    # Plus the disk's read-ahead, samples for the fingerprint, and a tensor or two that were not noted.
    assert read < left + 40 * MB, f"{done} of {size} bytes were packed, and the second start has read {read}"
    print(f"killed with {done / MB:.0f} of {size / MB:.0f} MB packed; the second start read {read / MB:.0f} MB of the weights")


def noted(journal):
    """Bytes of the packed file that its journal tells of."""
    try:
        lines = journal.read_text(encoding="utf-8").splitlines()[1:]
        last = json.loads(lines[-1].split(" ", 1)[1]) if lines else {"offset": 0, "bytes": 0}
    except (OSError, ValueError):  # it is being written, or is gone
        return 0
    return last["offset"] + last["bytes"]


def sparse_model(folder, like, fields):
    """A Qwen3-MoE folder of zeros. All of its weights are in one file with holes."""
    folder.mkdir()
    config = json.loads((like / "config.json").read_text(encoding="utf-8")) | fields
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in COMPANIONS:
        if (like / name).exists():
            shutil.copy(like / name, folder)
    hidden, ffn, vocab = config["hidden_size"], config["moe_intermediate_size"], config["vocab_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        shapes |= {f"{name}.input_layernorm.weight": (hidden,), f"{name}.post_attention_layernorm.weight": (hidden,),
                   f"{name}.self_attn.q_proj.weight": (q, hidden), f"{name}.self_attn.k_proj.weight": (kv, hidden),
                   f"{name}.self_attn.v_proj.weight": (kv, hidden), f"{name}.self_attn.o_proj.weight": (hidden, q),
                   f"{name}.self_attn.q_norm.weight": (head,), f"{name}.self_attn.k_norm.weight": (head,),
                   f"{name}.mlp.gate.weight": (config["num_experts"], hidden)}
        for expert in range(config["num_experts"]):
            for matrix, shape in (("gate", (ffn, hidden)), ("up", (ffn, hidden)), ("down", (hidden, ffn))):
                shapes[f"{name}.mlp.experts.{expert}.{matrix}_proj.weight"] = shape
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + end)
        os.fsync(out.fileno())
    long_ago = folder.stat().st_mtime - 3600  # fingerprints of files that have just been written are not saved
    os.utime(folder / "model.safetensors", (long_ago, long_ago))
    return folder


def drop(path):
    """Has the page cache forget a file."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert cached(path) == 0, f"this file system keeps {path} in memory"


def cached(path):
    """Bytes of a file that the page cache has."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    size = path.stat().st_size
    with open(path, "rb") as file:
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    assert at != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    failed = libc.mincore(at, size, pages)
    libc.munmap(at, size)
    assert failed == 0, os.strerror(ctypes.get_errno())
    return sum(pages.raw.count(bytes([state])) for state in range(1, 256, 2)) * mmap.PAGESIZE


def read_ahead_of(path):
    device = path.stat().st_dev
    with contextlib.suppress(OSError):
        info = pathlib.Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb").read_text(encoding="utf-8")
        return f"{int(info)} KiB"
    return "unknown"


def page(port, path, body=None):
    """@returns status and text; 0 and nothing while nobody listens"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        connection.request("POST" if body else "GET", path, body, {"content-type": "application/json"} if body else {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    return 0, ""


class Program:
    def __init__(self, argv, log_path):
        self.log_path = log_path
        with open(log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([str(a) for a in argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env=os.environ | QUICK_STOP)

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def line(self, text):
        """Waits for a line with that text. @returns it"""

        def found():
            lines = [line for line in self.log().splitlines() if text in line]
            assert lines or self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.log()}"
            return lines

        return wait_for(text, found, PATIENCE)[0].strip()

    def read_calls(self):
        """Bytes that read() and its kin have given it, from disks, caches and elsewhere."""
        fields = dict(line.split(": ") for line in pathlib.Path(f"/proc/{self.process.pid}/io").read_text(encoding="utf-8").splitlines())
        return int(fields["rchar"])

    def wait(self):
        return self.process.wait(PATIENCE)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.wait()
        assert status == 0, f"{self.process.args[0]} ended with {status} when told to stop:\n{self.log()}"


class Programs:
    """Starts programs; a context manager that ends those that still run."""

    def __init__(self, binaries, secret, work):
        self.binaries, self.secret, self.work, self.all = binaries, secret, work, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for program in self.all:
            program.process.kill()
            program.process.wait()

    def start(self, program, *arguments, name):
        started = Program([self.binaries / program, *arguments, "--secret-file", self.secret, "--name", name],
                          self.work / f"{name}.log")
        self.all.append(started)
        return started


if __name__ == "__main__":
    main()
