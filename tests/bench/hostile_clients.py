#!/usr/bin/python3
"""Measures whether one client can stop the others: time between tokens of well-behaved streams, with each kind of attack
and without.

    hostile_clients.py --build build/release --model deploy/demo-model/model [--attacks templates,silent,...] [--seconds 6]

32 streams run all the time against `troupe up`; windows with an attack and without follow one another (`without` on both
sides of each `with`). /health is asked all the time on a new connection, as a probe does. Printed for each attack: the 99th
percentile of time between tokens with over without, the slowest /health in the attack, what the attackers were told, and
failed well-behaved requests. Fails when a ratio is above --limit, a /health above --health-limit or a request has failed.

templates  chats with templates that hang or swallow memory
leavers    15 prompts of 15 MiB whose clients leave after a second
pattern    prompts for a hostile pre-tokenizer pattern of tokenizer.json (a cluster of its own, with that file)
silent     5,000 connections from one address that send nothing
readers    200 streams that nobody reads
large      answers of many choices with twenty logprobs each
one_key    one key that sends as fast as it can, at ten times and more what --key-limits lets it
"""
import argparse
import collections
import contextlib
import http.client
import json
import pathlib
import resource
import shutil
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from cluster import Cluster, counters, free_port, total, wait_for  # noqa: E402
from token_times import Load, gaps_between, percentile, tokens_of  # noqa: E402

GOOD_KEY, BAD_KEY = "a-well-behaved-key", "a-greedy-key"
ATTACKER = "127.0.0.2"  # the well-behaved come from 127.0.0.1
TIMEOUT = 60


class Attack:
    """Clients that run until they are told to stop. Counts what they were told."""

    def __init__(self, port):
        self.port, self.over = port, threading.Event()
        self.answers, self.lock, self.threads = collections.Counter(), threading.Lock(), []

    def run(self, client, clients):
        def repeat():
            while not self.over.is_set():
                try:
                    answer = client(self)
                except (OSError, http.client.HTTPException) as error:
                    answer = type(error).__name__
                with self.lock:
                    self.answers[str(answer)] += 1

        self.threads = [threading.Thread(target=repeat, daemon=True) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(TIMEOUT)

    def ask(self, path, body, key=BAD_KEY):
        """@returns the status"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(),
                               {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
            answer = connection.getresponse()
            while answer.read(1 << 20):
                pass
            return answer.status

    def send(self, path, body, keep, receive_buffer=0):
        """Sends a request and does not read; the client leaves after `keep` seconds, or when the attack is over."""
        with socket.socket() as client:
            if receive_buffer:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            client.settimeout(TIMEOUT)
            client.connect(("127.0.0.1", self.port))
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" \
                   f"Authorization: Bearer {BAD_KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            self.over.wait(keep)
        return "left"


TEMPLATES = ["{{ 9**(9**9) }}", "{{ 'a' * (7 * 10**9) }}", "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
             "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"]
LONG_PROMPT = json.dumps({"prompt": "word " * (3 << 20)}).encode()  # 15 MiB; a body may have 16


def templates(attack):
    def client(attack):
        template = TEMPLATES[threading.get_ident() % len(TEMPLATES)]
        return attack.ask("/v1/chat/completions",
                          {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "chat_template": template})

    attack.run(client, 8)


def leavers(attack):
    attack.run(lambda attack: attack.send("/tokenize", LONG_PROMPT, keep=1), 15)


def pattern(attack):
    attack.run(lambda attack: attack.ask("/tokenize", {"prompt": "a" * 11_600}), 8)


def silent(attack):
    def client(attack):
        with contextlib.ExitStack() as stack:
            refused = 0
            for _ in range(500):
                try:
                    stack.enter_context(socket.create_connection(("127.0.0.1", attack.port), timeout=TIMEOUT,
                                                                     source_address=(ATTACKER, 0)))
                except OSError:
                    refused += 1
            attack.over.wait(TIMEOUT)
        return f"{refused} of 500 refused"

    attack.run(client, 10)


def readers(attack):
    body = json.dumps({"prompt": "once upon a time", "max_tokens": 400, "n": 8, "stream": True, "ignore_eos": True}).encode()
    attack.run(lambda attack: attack.send("/v1/completions", body, keep=TIMEOUT, receive_buffer=4096), 200)


def large(attack):
    body = {"prompt": ["a"] * 16, "n": 32, "max_tokens": 100, "logprobs": 20, "ignore_eos": True}
    attack.run(lambda attack: attack.ask("/v1/completions", body), 2)


def one_key(attack):
    attack.run(lambda attack: attack.ask("/v1/completions", {"prompt": "once", "max_tokens": 32, "ignore_eos": True}), 64)


ATTACKS = {function.__name__: function for function in (templates, leavers, pattern, silent, readers, large, one_key)}


class Health:
    """Asks /health on new connections until it is stopped."""

    def __init__(self, port):
        self.port, self.over, self.seen = port, threading.Event(), []
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()

    def ask(self):
        while not self.over.wait(0.05):  # polls another process
            begun, status = time.time(), 0
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                with contextlib.closing(connection):
                    connection.request("GET", "/health")
                    status = connection.getresponse().status
            self.seen.append((begun, time.time() - begun, status))

    def slowest(self, begin, end):
        """@returns (seconds, answers that were not 200) of those asked in [begin, end)"""
        within = [(took, status) for at, took, status in self.seen if begin <= at < end]
        return max(took for took, _ in within), sum(status != 200 for _, status in within)

    def stop(self):
        self.over.set()
        self.thread.join()


def hostile_folder(model, folder):
    """The model with a pattern that takes exponential time."""
    copy = folder / "hostile-pattern"
    copy.mkdir()
    for file in pathlib.Path(model).resolve().iterdir():
        (copy / file.name).symlink_to(file)
    tokenizer = json.loads((copy / "tokenizer.json").read_text(encoding="utf-8"))
    split = {"type": "Split", "pattern": {"Regex": "(?:a|aa)+c|."}, "behavior": "Isolated", "invert": False}
    tokenizer["pre_tokenizer"] = {"type": "Sequence",
                                  "pretokenizers": [one for one in (split, tokenizer.get("pre_tokenizer")) if one]}
    (copy / "tokenizer.json").unlink()
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return copy


def flags_of(folder):
    keys, limits = folder / "keys", folder / "limits.json"
    keys.write_text(f"good {GOOD_KEY}\nbad {BAD_KEY}\n", encoding="utf-8")
    keys.chmod(0o600)
    limits.write_text(json.dumps({"keys": {"bad": {"concurrent_requests": 8}}}), encoding="utf-8")
    return ["--expert-workers", "2", "--trust-request-chat-template", "--api-key-file", str(keys), "--key-limits", str(limits)]


def measure(options, name, model, folder):
    """@returns the row of the attack"""
    own_key = folder / "good-key"
    own_key.write_text(GOOD_KEY + "\n", encoding="utf-8")
    own_key.chmod(0o600)
    management = free_port()
    with Cluster(options.build / "bin", "up", model, *flags_of(folder), "--management-port", str(management),
                 log=folder / "up.log") as cluster:
        health = Health(cluster.port)
        load = Load(options.build / "bin", cluster.port, folder / "load.json", num_prompts=1_000_000, max_concurrency=32,
                    duration=(2 * options.rounds + 1) * (options.seconds + 1), random_input_len="8:32", random_output_len="64:128",
                    random_vocab_size=256, api_key_file=own_key)
        wait_for("tokens of the load", lambda: total([counters(management)], "generation_tokens_total") > 0)
        spans, answers = {"with": [], "without": []}, collections.Counter()
        for number in range(2 * options.rounds + 1):
            begin = time.time()
            if number % 2:
                attack = Attack(cluster.port)
                ATTACKS[name](attack)
                time.sleep(options.seconds)
                spans["with"].append((begin, time.time()))
                attack.stop()
                answers += attack.answers
            else:
                time.sleep(options.seconds)
                spans["without"].append((begin, time.time()))
        report = load.report(600)
        health.stop()
    tokens = tokens_of(report)
    p99 = {kind: 1e3 * percentile(sorted(gap for span in windows for gap in gaps_between(tokens, *span)), 99)
           for kind, windows in spans.items()}
    looks = [health.slowest(*span) for span in spans["with"]]
    return {"attack": name, "p99_ms": p99, "ratio": p99["with"] / p99["without"], "health_ms": 1e3 * max(took for took, _ in looks),
            "health_refused": sum(refused for _, refused in looks), "failed": report["failed"], "completed": report["completed"],
            "answers": dict(answers)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--seconds", type=float, default=6, help="of a window")
    parser.add_argument("--rounds", type=int, default=3, help="windows with each attack")
    parser.add_argument("--limit", type=float, default=1.5)
    parser.add_argument("--health-limit", type=float, default=100, help="milliseconds")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = []
    print("| attack | p99 between tokens, ms: without | with | ratio | slowest /health, ms | /health refused | failed | attackers were told |"
          "\n|---|---|---|---|---|---|---|---|")
    for name in options.attacks.split(","):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model = hostile_folder(options.model, folder) if name == "pattern" else options.model
            try:
                row = measure(options, name, model, folder)
            except BaseException:
                if (folder / "up.log").exists():
                    shutil.copy(folder / "up.log", pathlib.Path(tempfile.gettempdir()) / "hostile_clients.log")
                raise
        rows.append(row)
        told = ", ".join(f"{answer}: {count}" for answer, count in sorted(row["answers"].items()))
        print(f"| {name} | {row['p99_ms']['without']:.2f} | {row['p99_ms']['with']:.2f} | {row['ratio']:.2f} | {row['health_ms']:.0f}"
              f" | {row['health_refused']} | {row['failed']} of {row['failed'] + row['completed']} | {told} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    missed = [row["attack"] for row in rows
              if row["ratio"] > options.limit or row["health_ms"] > options.health_limit or row["health_refused"] or row["failed"]]
    if missed:
        sys.exit(f"hostile_clients: beyond the limits: {', '.join(missed)}")


if __name__ == "__main__":
    main()
