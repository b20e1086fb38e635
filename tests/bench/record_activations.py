#!/usr/bin/env python3
"""Records which experts a running server uses, window by window: one trace file for each domain of prompts.

    build/release/bin/troupe serve deploy/demo-model/model --port 8000 &
    tests/bench/record_activations.py --server http://127.0.0.1:8000 --out tests/bench/traces

A window is one batch: --batch requests that are sent at once and all answered before the next ones. Its rows are what
the counter expert_rows_total{layer,expert} has grown by, summed over the --metrics pages, of which there is one per
expert worker (in `troupe serve` the server's own /metrics, the default). Other traffic would be counted, too. The
prompts are those of load/prompts and load/heldout in an order that --seed shuffles, --passes times.

A trace is JSON lines: first what was recorded, then a window a line,
    {"format": "troupe-trace 1", "trace": "python_code", "model": "...", "batch": 8, "tokens": 32, "top_k": 2,
     "temperature": 0.8, "seed": 1}
    {"rows": [[rows of each expert] for each layer]}
load/activation_trace.hpp has the format, which `troupe-load trace` writes, too, from a cluster's history; there a
window is some seconds. A window may also have "weight" (1) and "steps", the micro-batches that its rows are of
(unknown when left out).
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import time
import urllib.request

TIMEOUT_SECONDS = 120
_COUNTER = re.compile(r"^[\w:]*expert_rows_total\{([^}]*)\} (\S+)", re.M)
_CHECKOUT = pathlib.Path(__file__).resolve().parent.parent.parent


def read_counters(pages):
    """Returns {(layer, expert): rows} summed over the metrics pages."""
    rows = {}
    for page in pages:
        with urllib.request.urlopen(page, timeout=TIMEOUT_SECONDS) as answer:
            text = answer.read().decode()
        for labels, value in _COUNTER.findall(text):
            fields = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            key = int(fields["layer"]), int(fields["expert"])
            rows[key] = rows.get(key, 0) + int(float(value))
    return rows


def settled_counters(pages, before, least):
    """Reads the counters until every layer has grown by the same number of rows, at least so many."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        rows = read_counters(pages)
        grown = {}
        for key, value in rows.items():
            grown[key[0]] = grown.get(key[0], 0) + value - before.get(key, 0)
        if len(set(grown.values())) == 1 and next(iter(grown.values())) >= least:
            return rows
        if time.monotonic() > deadline:
            raise SystemExit(f"record_activations: not yet {least} rows in each layer: {grown}")
        time.sleep(0.05)  # polls another process: it has no event to wait for


def complete(server, prompt, tokens, temperature, seed):
    """Returns the rows that a layer has computed for it: of the last token there are none."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": temperature, "seed": seed}
    request = urllib.request.Request(
        server.rstrip("/") + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        return json.load(answer)["usage"]["total_tokens"] - 1


def record(arguments, prompts, pages):
    """Yields the windows of one domain: layers x experts rows."""
    order = random.Random(arguments.seed)
    queue = []
    for _ in range(arguments.passes):
        queue += order.sample(prompts, len(prompts))
    before = read_counters(pages)
    with concurrent.futures.ThreadPoolExecutor(arguments.batch) as pool:
        for start in range(0, len(queue) - arguments.batch + 1, arguments.batch):
            batch = queue[start : start + arguments.batch]
            jobs = [
                pool.submit(
                    complete, arguments.server, prompt, arguments.tokens, arguments.temperature, start + at
                )
                for at, prompt in enumerate(batch)
            ]
            rows = sum(job.result() for job in jobs)
            after = settled_counters(pages, before, rows * arguments.top_k)
            layers, experts = (1 + max(key[axis] for key in after) for axis in (0, 1))
            yield [
                [after.get((layer, e), 0) - before.get((layer, e), 0) for e in range(experts)]
                for layer in range(layers)
            ]
            before = after


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--metrics", nargs="+", help="metrics pages of the expert workers (SERVER/metrics)")
    parser.add_argument("--batch", type=int, default=8, help="requests at once: a window (8)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to generate per request (32)")
    parser.add_argument("--top-k", type=int, default=2, help="experts that the model's rows choose (2)")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--passes", type=int, default=2, help="times that each prompt is sent (2)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="deploy/demo-model/model", help="what to call the model in the files")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the traces")
    arguments = parser.parse_args()
    pages = arguments.metrics or [arguments.server.rstrip("/") + "/metrics"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in sorted((_CHECKOUT / "load" / "prompts").glob("*.jsonl")):
        prompts = []
        for folder in ("prompts", "heldout"):
            text = (_CHECKOUT / "load" / folder / path.name).read_text(encoding="utf-8")
            prompts += [json.loads(line).get("prompt") or json.loads(line)["text"][:200] for line in text.splitlines()]
        header = {
            "format": "troupe-trace 1",
            "trace": path.stem,
            "model": arguments.model,
            "batch": arguments.batch,
            "tokens": arguments.tokens,
            "top_k": arguments.top_k,
            "temperature": arguments.temperature,
            "seed": arguments.seed,
        }
        count = 0
        with open(arguments.out / path.name, "w", encoding="utf-8") as out:
            out.write(json.dumps(header) + "\n")
            for rows in record(arguments, prompts, pages):
                out.write(json.dumps({"rows": rows}, separators=(",", ":")) + "\n")
                count += 1
        print(f"{path.stem}: {count} windows")


if __name__ == "__main__":
    main()
