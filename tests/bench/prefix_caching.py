#!/usr/bin/python3
"""What prefix caching gives, and what it costs where nothing is shared.

    prefix_caching.py --build build/release --model DIR [--flags "--expert-quant int8"] [--rounds 5] [--parts hit,cold,turns,memory]

DIR is a Hugging Face folder with a context of at least 4,352 tokens. Two servers stay up, with prefix caching and without;
each part asks them in turn, in the same order of prompts.

hit     time to the first token of prompts of 4,096 tokens: new ones, and ones whose first 90 % is known
cold    output tokens over time, 16 requests at once of 256 tokens that nobody has sent before, 32 new ones each
turns   four chats of six turns side by side, which share a system prompt of 512 tokens: computed tokens, time to the first token
memory  128 prompts of 1,024 tokens to a KV cache of 8,192: its blocks in use and retained, and resident memory before and after
"""
import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import random
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving_bench import Server, free_port  # noqa: E402


class Troupe(Server):
    def __init__(self, args, name, *flags):
        port = free_port()
        super().__init__(name, [args.build / "bin/troupe", "serve", args.model, "--port", str(port), *args.flags.split(), *flags],
                         port, "/ready")

    def ask(self, prompt, tokens=1):
        """@returns (seconds until the whole answer, its JSON)"""
        began = time.perf_counter()
        status, body = self.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True,
                                                                "temperature": 0, "return_token_ids": True})
        assert status == 200, body
        return time.perf_counter() - began, json.loads(body)

    def figure(self, family):
        page = self.request("GET", "/metrics")[1].decode()
        return sum(float(value) for value in re.findall(rf"^troupe_{family}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE))


@contextlib.contextmanager
def running(args, name, *flags):
    server = Troupe(args, name, *flags)
    try:
        yield server
    finally:
        server.stop()


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


class Prompts:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def new(self, count):
        return [self.random.randrange(10, 30000) for _ in range(count)]


def hit(args, on, off):
    made, rows = Prompts(1), []
    for _ in range(args.rounds):
        whole = made.new(4096)
        known = int(0.9 * 4096)
        missed, _ = on.ask(whole)
        found, answer = on.ask(whole[:known] + made.new(4096 - known))
        rows.append((off.ask(whole)[0], missed, found))
        assert cached(answer) == known // 16 * 16, cached(answer)
    without, miss, warm = (statistics.median(column) for column in zip(*rows))
    print(f"| hit | first token of 4,096 tokens | off {without:.2f} s | miss {miss:.2f} s | 90 % known {warm:.2f} s "
          f"| {100 * warm / miss:.1f} % of a miss |", flush=True)


def cold(args, on, off):
    made, ratios = Prompts(2), []
    for _ in range(args.rounds):
        prompts, seconds = [made.new(256) for _ in range(16)], []
        for server in (on, off) if len(ratios) % 2 else (off, on):
            began = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda prompt, server=server: server.ask(prompt, 32), prompts))
            seconds.append((server is on, time.perf_counter() - began))
        times = dict(seconds)
        ratios.append(times[False] / times[True])
    print(f"| cold | throughput with over without | median {statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} |",
          flush=True)


def turns(args, on, off):
    for name, server in (("off", off), ("on", on)):
        made, waits = Prompts(3), []
        system = made.new(512)
        chats = [system + made.new(64) for _ in range(4)]
        before = server.figure("computed_tokens_total"), server.figure("prefix_cache_hits_total")
        for _ in range(6):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                firsts = list(pool.map(server.ask, chats))
                answers = list(pool.map(lambda chat, server=server: server.ask(chat, 48)[1], chats))
            waits += [seconds for seconds, _ in firsts]
            chats = [chat + answer["choices"][0]["token_ids"] + made.new(64) for chat, answer in zip(chats, answers)]
        computed, hits = (server.figure(family) - first for family, first in
                          zip(("computed_tokens_total", "prefix_cache_hits_total"), before))
        print(f"| turns | prefix caching {name} | {computed:.0f} tokens computed, {hits:.0f} known "
              f"| first token {statistics.median(waits):.2f} s, longest {max(waits):.2f} s |", flush=True)


def resident(server):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) >> 10


def memory(args, on, off):
    per_token = 16 * 2 * 4 * 64 * 2  # bytes of shape_a's KV
    with running(args, "small", "--kv-cache-memory", str(8192 * per_token)) as server:
        made = Prompts(4)
        server.ask(made.new(1024))
        first = resident(server)
        most = 0
        for _ in range(128):
            server.ask(made.new(1024))
            most = max(most, server.figure("kv_cache_used_blocks") + server.figure("kv_cache_retained_blocks"))
        print(f"| memory | 128 prompts of 1,024 tokens, cache of {server.figure('kv_cache_blocks'):.0f} blocks "
              f"| most used and retained {most:.0f} | resident {first} MiB after one, {resident(server)} MiB after all |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--flags", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default="hit,cold,turns,memory")
    args = parser.parse_args()
    parts = {"hit": hit, "cold": cold, "turns": turns, "memory": memory}
    with running(args, "on") as on, running(args, "off", "--no-enable-prefix-caching") as off:
        for name in args.parts.split(","):
            parts[name](args, on, off)


if __name__ == "__main__":
    main()
