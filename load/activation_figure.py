#!/usr/bin/env python3
"""Draws which experts each domain uses: one (layer × expert) map per domain, as a PNG.

    python3 load/activation_figure.py --rows deploy/demo-model/model/evaluation.json --out activations.png
    python3 load/activation_figure.py --server http://127.0.0.1:8000 \\
        --metrics http://127.0.0.1:9102/metrics --prompts load/prompts --out activations.png

The first form reads counted rows, {domain: {"rows": [[rows of each expert] for each layer]}}, as
deploy/demo-model/evaluate.py --out writes them. The second asks a running server: it sends the prompts of one
domain after the other to /v1/completions and takes the growth of the counter expert_rows_total{layer,expert},
summed over the --metrics pages, of which there is one per expert worker (in `troupe serve` the server's own
/metrics, the default). --save keeps the rows it counted. Other traffic in between would be counted, too.
"""

import argparse
import json
import pathlib
import re
import sys
import urllib.request

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

TIMEOUT_SECONDS = 120
_COUNTER = re.compile(r"^[\w:]*expert_rows_total\{([^}]*)\} (\S+)", re.M)


def read_counters(pages):
    """Returns {(layer, expert): rows} summed over the metrics pages."""
    rows = {}
    for page in pages:
        with urllib.request.urlopen(page, timeout=TIMEOUT_SECONDS) as answer:
            text = answer.read().decode()
        for labels, value in _COUNTER.findall(text):
            fields = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            key = int(fields["layer"]), int(fields["expert"])
            rows[key] = rows.get(key, 0.0) + float(value)
    return rows


def count_on_server(server, pages, prompts, tokens):
    """Sends every domain's prompts to the server; returns {domain: {"rows": layers × experts}}."""
    counted = {}
    for path in sorted(prompts.glob("*.jsonl")):
        before = read_counters(pages)
        for line in path.read_text(encoding="utf-8").splitlines():
            body = json.dumps(
                {"prompt": json.loads(line)["prompt"], "max_tokens": tokens, "temperature": 0.0}
            ).encode()
            request = urllib.request.Request(
                server.rstrip("/") + "/v1/completions", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                answer.read()
        after = read_counters(pages)
        if not after:
            raise SystemExit(f"activation_figure: no expert_rows_total in {', '.join(pages)}")
        layers, experts = (1 + max(key[axis] for key in after) for axis in (0, 1))
        counted[path.stem] = {
            "rows": [
                [
                    after.get((layer, expert), 0.0) - before.get((layer, expert), 0.0)
                    for expert in range(experts)
                ]
                for layer in range(layers)
            ]
        }
    return counted


def shares(rows):
    """Returns rows as shares of their layer."""
    return [[row / max(1.0, sum(layer)) for row in layer] for layer in rows]


def draw(domains, out):
    """Draws {domain: layers × experts shares} side by side with one colour scale."""
    hottest = max(share for layers in domains.values() for layer in layers for share in layer)
    figure, axes = pyplot.subplots(
        1, len(domains), figsize=(4.2 * len(domains), 3.2), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, (domain, layers) in zip(axes[0], domains.items()):
        image = axis.imshow(layers, vmin=0, vmax=hottest, cmap="viridis", aspect="auto")
        axis.set_title(domain.replace("_", " "))
        axis.set_xlabel("expert")
        axis.set_xticks(range(0, len(layers[0]), max(1, len(layers[0]) // 8)))
        axis.set_yticks(range(len(layers)))
        for layer, row in enumerate(layers):
            top = max(range(len(row)), key=row.__getitem__)
            axis.text(
                top,
                layer,
                f"{row[top]:.0%}",
                ha="center",
                va="center",
                fontsize=6.5,
                color="black" if row[top] > 0.6 * hottest else "white",
            )
    axes[0][0].set_ylabel("layer")
    figure.colorbar(image, ax=axes[0].tolist(), label="share of the layer's rows")
    figure.savefig(out, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--rows", type=pathlib.Path, help="counted rows as JSON")
    source.add_argument("--server", help="URL of a running server")
    parser.add_argument("--metrics", nargs="+", help="metrics pages of the expert workers (SERVER/metrics)")
    parser.add_argument(
        "--prompts", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "prompts"
    )
    parser.add_argument("--tokens", type=int, default=32, help="tokens to generate per prompt")
    parser.add_argument("--save", type=pathlib.Path, help="write the counted rows as JSON")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the PNG")
    arguments = parser.parse_args()
    if arguments.rows:
        counted = json.loads(arguments.rows.read_text())
    else:
        pages = arguments.metrics or [arguments.server.rstrip("/") + "/metrics"]
        counted = count_on_server(arguments.server, pages, arguments.prompts, arguments.tokens)
    if arguments.save:
        arguments.save.write_text(json.dumps(counted) + "\n")
    if not counted:
        raise SystemExit("activation_figure: no domains to draw")
    domains = {domain: shares(figures["rows"]) for domain, figures in counted.items()}
    draw(domains, arguments.out)
    for domain, layers in domains.items():
        tops = [f"{max(layer):.0%} (expert {layer.index(max(layer))})" for layer in layers]
        print(f"{domain}: hottest per layer: {', '.join(tops)}")


if __name__ == "__main__":
    sys.exit(main())
