#!/usr/bin/python3
"""The cost of servers over engines: decode throughput at batch 32 through the REST API, and a Poisson load, side by
side.

    serving_bench.py --build build/release --model DIR [--flags "--expert-quant int8 …"] [--rounds 5] [--json FILE]
                     [--peer-build DIR --peer-model FILE.gguf] [--rates 0.75,1.5,0] [--parts batch,poisson,start]

DIR is a Hugging Face folder. Measured in turn, all servers staying up: our engine alone (engine_bench), `troupe serve`,
`troupe up` with one attention and two expert processes, and the peer's llama-server (in the Poisson part).

batch    32 requests at once, of 8 prompt tokens and 48 output tokens each: output tokens over the time until the last
         answer ends. The engine's time is that of one prefill of all prompts' tokens and of the decoding steps.
poisson  prompts of 8 to 128 tokens, outputs of 1 to 128; rate 0 is all at once, which shows the saturated server.
start    from the start of a process to the first token of an answer, files in the page cache.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from peer import Engine, locked

BATCH, PROMPT, STEPS = 32, 8, 48


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A program that listens on a port of loopback."""

    def __init__(self, name, command, port, ready_path):
        self.name, self.port = name, port
        self.started = time.perf_counter()
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        while not self.is_ready(ready_path):
            if self.process.poll() is not None or time.perf_counter() - self.started > 600:
                self.stop()
                self.log.seek(0)
                raise RuntimeError(f"{name} did not start:\n{self.log.read()[-2000:]}")
            time.sleep(0.01)  # polls another process
        self.ready_seconds = time.perf_counter() - self.started

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def is_ready(self, path):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", path)[0] == 200
        return False

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def run_load(args, server, **flags):
    """troupe-load against a server. @returns its report"""
    with tempfile.NamedTemporaryFile("r") as out:
        command = args.client_with.split()
        command += [os.path.join(args.build, "bin", "troupe-load"), "run", "--url", f"http://127.0.0.1:{server.port}"]
        command += ["--random-vocab-size", str(args.vocab_size), "--output", out.name]
        for name, value in flags.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{server.name}: {done.stderr}")
        return json.load(out)


def start_troupe(args, command, *extra):
    port = free_port()
    argv = [*args.run_with.split(), os.path.join(args.build, "bin", "troupe"), command, args.model]
    argv += ["--port", str(port), "--max-model-len", "512"]
    return Server(f"troupe {command}", [*argv, *extra, *args.flags.split()], port, "/ready")


def start_peer(args):
    port = free_port()
    argv = [*args.run_with.split(), os.path.join(args.peer_build, "bin", "llama-server"), "-m", args.peer_model]
    # 256 positions a slot; without reuse of graphs, with which it has aborted under such a load; without llama.log,
    # which it would leave in this folder.
    slots = ["-np", str(args.peer_slots), "-c", str(256 * args.peer_slots)]
    argv += ["--host", "127.0.0.1", "--port", str(port), "-t", str(args.threads), *slots, "-no-gr", "--log-disable"]
    return Server("llama-server", argv, port, "/health")


def batch_part(args, servers):
    bench = [*args.run_with.split(), os.path.join(args.build, "tests", "engine_bench"), args.model]
    engine = Engine("engine", [*bench, "--threads", str(args.threads), *args.flags.split()])
    rates = {"engine": [], **{server.name: [] for server in servers}}
    for number in range(args.rounds):
        with locked(args.lock):
            prefill = engine.ask(f"prefill {BATCH * PROMPT}")["seconds"]  # includes the first token
            decode = engine.ask(f"decode {BATCH} {STEPS - 1}")["seconds"]
            rates["engine"].append(BATCH * STEPS / (prefill + decode))
            for server in servers:
                report = run_load(args, server, num_prompts=BATCH, random_input_len=f"{PROMPT}:{PROMPT}",
                                  random_output_len=f"{STEPS}:{STEPS}", seed=number)
                rates[server.name].append(report["output_throughput"])
        print(f"batch: round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    engine.close()
    base = statistics.median(rates["engine"])
    print(f"| {BATCH} requests of {PROMPT} + {STEPS} tokens | output tokens/s | of the engine |\n|---|---|---|")
    for name, values in rates.items():
        median = statistics.median(values)
        print(f"| {name} | {median:.1f} | {100 * median / base:.0f} % |")
    return rates


def poisson_part(args, servers):
    results = []
    print("\n| requests/s offered | server | served | output tokens/s | TTFT p50 / p99 ms | TPOT p50 / p99 ms |")
    print("|---|---|---|---|---|---|")
    for rate in args.rates.split(","):
        for server in servers:
            with locked(args.lock):
                report = run_load(args, server, num_prompts=args.requests, random_input_len="8:128",
                                  random_output_len="1:128", request_rate=rate, seed=1)
            shown = [rate if float(rate) else "all at once", server.name, f"{report['request_throughput']:.2f}"]
            shown += [f"{report['output_throughput']:.0f}"]
            shown += [f"{report[f'median_{m}_ms']:.0f} / {report[f'p99_{m}_ms']:.0f}" for m in ("ttft", "tpot")]
            print("| " + " | ".join(shown) + " |", flush=True)
            results.append({"rate": rate, "server": server.name, "report": report})
    return results


def start_part(args):
    seconds = []
    for _ in range(args.rounds):
        with locked(args.lock):
            server = start_troupe(args, "serve")
            server.request("POST", "/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 1, "temperature": 0})
            seconds.append({"ready": server.ready_seconds, "first_token": time.perf_counter() - server.started})
            server.stop()
    print(f"\nCold process to ready {statistics.median(s['ready'] for s in seconds):.2f} s, to the first token"
          f" {statistics.median(s['first_token'] for s in seconds):.2f} s (median of {len(seconds)}).")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="our build folder, with bin/ and tests/engine_bench")
    parser.add_argument("--model", required=True, help="Hugging Face folder")
    parser.add_argument("--flags", default="", help="model flags of serve, up and engine_bench, in one word")
    parser.add_argument("--peer-build", help="build folder of ik_llama.cpp, with bin/llama-server")
    parser.add_argument("--peer-model", help="GGUF file of the same model")
    parser.add_argument("--peer-slots", type=int, default=8, help="sequences that its server decodes at once")
    parser.add_argument("--parts", default="batch,poisson,start")
    parser.add_argument("--rates", default="0.75,1.5,0", help="requests a second; 0: all at once")
    parser.add_argument("--requests", type=int, default=40, help="of each Poisson run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run-with", default="", help='put before every server and engine, e.g. "nice -n -10"')
    parser.add_argument("--client-with", default="", help='put before the load client, e.g. "nice -n -20"')
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lock", help="a file to lock in every round")
    parser.add_argument("--json", help="where to write everything measured")
    args = parser.parse_args()
    config = json.loads(pathlib.Path(args.model, "config.json").read_text(encoding="utf-8"))
    args.vocab_size = config["vocab_size"]
    parts = args.parts.split(",")
    result = {}
    with contextlib.ExitStack() as stack:

        def up(server):
            stack.callback(server.stop)
            return server

        servers = []
        if "batch" in parts or "poisson" in parts:
            servers.append(up(start_troupe(args, "serve")))
        if "batch" in parts:
            split = up(start_troupe(args, "up", "--attention-workers", "1", "--expert-workers", "2"))
            result["batch"] = batch_part(args, [*servers, split])
            split.stop()
        if "poisson" in parts:
            if args.peer_build and args.peer_model:
                servers.append(up(start_peer(args)))
            result["poisson"] = poisson_part(args, servers)
    if "start" in parts:
        result["start"] = start_part(args)
    print(f"\nLoad average {os.getloadavg()[0]:.1f}.")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
