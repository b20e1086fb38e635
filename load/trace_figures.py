#!/usr/bin/python3
"""Draws what traces of expert activations show, as "Towards MoE Deployment" (sections III and IV) does: PNG files and a table.

    build/release/bin/troupe-load trace --prompts load/prompts --output trace.jsonl
    load/trace_figures.py trace.jsonl --out figures
    load/trace_figures.py tests/bench/traces/*.jsonl --out figures

    popularity.png   layer x expert by domain: each expert's share of its layer's rows
    windows.png      window x expert by domain, of one layer (fig. 6): hot experts are vertical lines
    sparsity.png     experts without a row, measured by layer (fig. 7), and what smaller batches would leave idle
    locality.png     of a window's hot quarter, what is hot so many windows later
    correlation.png  which experts of a layer are busy together, domains mixed
    domains.png      share of rows that other experts get when the domain changes
    capacity.png     rows that a static capacity drops, and computes in vain
    summary.txt      the table that is printed, too

A window is what its trace says. Longer windows leave fewer experts idle and need less capacity than the batches in them.
"""

import argparse
import pathlib
import sys

import matplotlib.ticker
import numpy

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

import trace_statistics as statistics  # noqa: E402

LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LEAST_WINDOWS = 8  # fewest windows for a correlation
PAPER_WASTE = 25.6  # capacity factor times experts of the paper's language model
MAX_PANELS = 8  # layers or domains side by side


def title_of(domain):
    return domain.replace("_", " ")


def panels(count, width, height):
    return pyplot.subplots(1, count, figsize=(width * count, height), sharey=True, squeeze=False, layout="constrained")


def draw_popularity(domains, layers, out):
    figure, axes = panels(len(domains), 3.6, 0.6 + 0.35 * min(20, len(layers)))
    widest = max(rows.shape[1] for windows in domains.values() for rows in windows.rows)
    maps = {}
    for domain, windows in domains.items():
        maps[domain] = numpy.full((len(layers), widest), numpy.nan)
        for at, rows in enumerate(windows.rows):
            maps[domain][at, : rows.shape[1]] = statistics.popularity(rows)
    hottest = max(numpy.nanmax(values) for values in maps.values())
    for axis, (domain, values) in zip(axes[0], maps.items()):
        image = axis.imshow(values, vmin=0, vmax=hottest, aspect="auto")
        axis.set_title(title_of(domain))
        axis.set_xlabel("expert")
        step = max(1, len(layers) // 12)
        axis.set_yticks(range(0, len(layers), step), layers[::step])
    axes[0][0].set_ylabel("layer")
    figure.colorbar(image, ax=axes[0].tolist(), label="share of the layer's rows")
    figure.savefig(out, dpi=120)
    pyplot.close(figure)


def draw_windows(domains, layers, at, out):
    figure, axes = panels(len(domains), 3, 3.6)
    hottest = max(statistics.shares(windows.rows[at]).max() for windows in domains.values())
    for axis, (domain, windows) in zip(axes[0], domains.items()):
        image = axis.imshow(statistics.shares(windows.rows[at]), vmin=0, vmax=hottest, aspect="auto", interpolation="nearest")
        axis.set_title(title_of(domain))
        axis.set_xlabel("expert")
    axes[0][0].set_ylabel(f"window (layer {layers[at]})")
    figure.colorbar(image, ax=axes[0].tolist(), label="share of the window's rows")
    figure.savefig(out, dpi=120)
    pyplot.close(figure)


def draw_sparsity(domains, layers, out):
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for domain, windows in domains.items():
        left.plot(layers, [statistics.idle_share(rows) for rows in windows.rows], "o-", ms=3, label=title_of(domain))
        right.plot(BATCHES, [expected_idle(windows, batch) for batch in BATCHES], "o-", ms=3)
    left.set(xlabel="layer", ylabel="experts without a row in a window")
    right.set(xlabel="tokens of a batch, drawn from a window", ylabel="experts without a row, expected")
    right.set_xscale("log", base=2)
    for axis in (left, right):
        axis.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1, decimals=0))
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    left.legend(fontsize=8)
    figure.savefig(out, dpi=120)
    pyplot.close(figure)


def mean(values):
    return float(numpy.mean(list(values)))


def expected_idle(windows, batch):
    return mean(statistics.expected_idle_share(rows, windows.tokens, batch) for rows in windows.rows)


def hot_stays(windows, lag):
    return mean(statistics.hot_stays(rows, lag) for rows in windows.rows)


def draw_locality(domains, out):
    figure, axis = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for domain, windows in domains.items():
        lags = [lag for lag in LAGS if lag < len(windows.tokens)]
        axis.plot(lags, [hot_stays(windows, lag) for lag in lags], "o-", ms=3, label=title_of(domain))
    axis.axhline(0.25, color="gray", lw=1, ls="--", label="by chance")
    axis.set(xlabel="windows later", ylabel="of the hot quarter still hot", ylim=(0, 1.02))
    axis.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1, decimals=0))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(out, dpi=120)
    pyplot.close(figure)


def mixed(domains, at):
    """One layer's windows of all domains."""
    return numpy.concatenate([windows.rows[at] for windows in domains.values()])


def draw_correlation(domains, layers, out):
    chosen = list(range(len(layers)))[:: -(-len(layers) // MAX_PANELS)]
    figure, axes = panels(len(chosen), 2.6, 2.9)
    for axis, at in zip(axes[0], chosen):
        image = axis.imshow(statistics.correlation(mixed(domains, at)), vmin=-1, vmax=1, cmap="RdBu_r")
        axis.set_title(f"layer {layers[at]}")
        axis.set_xlabel("expert")
    axes[0][0].set_ylabel("expert")
    figure.colorbar(image, ax=axes[0].tolist(), label="Pearson's correlation")
    figure.savefig(out, dpi=120)
    pyplot.close(figure)


def difference(domains, first, second):
    """Mean over layers; of a domain and itself, of its halves."""
    pairs = (
        (statistics.halves(own) if first == second else (own, other))
        for own, other in zip(domains[first].rows, domains[second].rows)
    )
    return mean(statistics.difference(*pair) for pair in pairs)


def draw_domains(domains, out):
    names = list(domains)
    values = [[difference(domains, first, second) for second in names] for first in names]
    figure, axis = pyplot.subplots(figsize=(2.4 + 0.7 * len(names), 1.8 + 0.6 * len(names)), layout="constrained")
    image = axis.imshow(values, vmin=0, cmap="viridis")
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            axis.text(column, row, percent(value), ha="center", va="center", color="white", fontsize=8)
    axis.set_xticks(range(len(names)), [title_of(name) for name in names], rotation=45, ha="right")
    axis.set_yticks(range(len(names)), [title_of(name) for name in names])
    figure.colorbar(image, label="share of rows that other experts get")
    figure.savefig(out, dpi=120)
    pyplot.close(figure)


def wastes(windows, factor):
    return [statistics.static_capacity(rows, windows.tokens, factor) for rows in windows.rows]


def draw_capacity(domains, out):
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    factors = numpy.geomspace(0.02, 1, 25)
    for domain, windows in domains.items():
        found = [wastes(windows, factor) for factor in factors]
        dropped = [mean(waste.dropped for waste in of_layers) for of_layers in found]
        computed = [mean(waste.computed for waste in of_layers) for of_layers in found]
        left.plot(factors, dropped, "o-", ms=3, label=title_of(domain))
        right.plot(computed, dropped, "o-", ms=3)
    left.set(xlabel="capacity factor", ylabel="rows dropped")
    right.set(xlabel="rows computed, padding included, over rows needed", ylabel="rows dropped")
    right.axvline(1, color="gray", lw=1, ls="--")
    for axis in (left, right):
        axis.set_xscale("log")
        axis.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1, decimals=0))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.grid(alpha=0.3)
    left.legend(fontsize=8)
    figure.savefig(out, dpi=120)
    pyplot.close(figure)


def correlated_share(rows):
    """Share of pairs of experts whose correlation is beyond a half either way; nan where too few windows tell."""
    pairs = statistics.off_diagonal(statistics.correlation(rows))
    return float((abs(pairs) > 0.5).mean()) if len(pairs) and len(rows) >= LEAST_WINDOWS else float("nan")


def percent(value, digits=0):
    return "-" if numpy.isnan(value) else f"{value:.{digits}%}"


def table(domains, window):
    """The figures in words. Means over layers."""
    names = list(domains)
    experts = max(rows.shape[1] for rows in next(iter(domains.values())).rows)
    paper = min(1.0, PAPER_WASTE / experts)
    lines = [
        f"A window: {window}. Means over layers.",
        "",
        f"| domain | windows | tokens of one | busiest expert / even | idle | idle, 1 token | 8 | 32 | hot quarter stays | 8 later "
        f"| pairs correlated | least capacity | waste with it | dropped at twice the even share | waste at C = {paper:.2f} |",
        "|---" * 15 + "|",
    ]
    for name, windows in domains.items():
        tokens = windows.tokens
        layers = windows.rows
        least = [statistics.least_capacity(rows, tokens) for rows in layers]
        fitting = [statistics.static_capacity(rows, tokens, factor) for rows, factor in zip(layers, least)]
        twice = [statistics.static_capacity(rows, tokens, 2 * statistics.even_capacity(rows, tokens)) for rows in layers]
        cells = [
            name,
            len(tokens),
            f"{tokens.mean():.0f}",
            f"{mean(statistics.popularity(rows).max() * rows.shape[1] for rows in layers):.2f}",
            percent(mean(map(statistics.idle_share, layers)), 1),
            *(percent(expected_idle(windows, batch)) for batch in (1, 8, 32)),
            *(percent(hot_stays(windows, lag)) for lag in (1, 8)),
            percent(mean(map(correlated_share, layers))),
            f"{mean(least):.2f}",
            f"{mean(waste.computed for waste in fitting):.1f}",
            percent(mean(waste.dropped for waste in twice), 1),
            f"{mean(waste.computed for waste in wastes(windows, paper)):.1f}",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    mixed_share = mean(correlated_share(mixed(domains, at)) for at in range(len(next(iter(domains.values())).rows)))
    lines += ["", f"Pairs of experts correlated beyond 0.5 over all domains' windows: {percent(mixed_share)}."]
    if len(names) > 1:
        pairs = [(difference(domains, a, b), a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        own = mean(difference(domains, name, name) for name in names)
        (low, *least), (high, *most) = min(pairs), max(pairs)
        lines.append(
            f"From domain to domain {low:.0%} ({' to '.join(least)}) to {high:.0%} ({' to '.join(most)}) of the rows go to"
            f" other experts; between two halves of the same domain {percent(own)}."
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=pathlib.Path, nargs="+", help="files of one model")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the figures")
    parser.add_argument("--layer", type=int, help="that windows.png shows (the middle one)")
    arguments = parser.parse_args()
    try:
        traces = [statistics.read_trace(path) for path in arguments.traces]
        domains = statistics.joined(traces)
    except (OSError, ValueError) as error:
        raise SystemExit(f"trace_figures: {error}") from None
    layers = traces[0].layers
    if arguments.layer is not None and arguments.layer not in layers:
        raise SystemExit(f"trace_figures: --layer: {arguments.layer} is none of the layers with experts, {layers}")
    at = len(layers) // 2 if arguments.layer is None else layers.index(arguments.layer)
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    drawn = dict(list(domains.items())[:MAX_PANELS])
    draw_popularity(drawn, layers, out / "popularity.png")
    draw_windows(drawn, layers, at, out / "windows.png")
    draw_sparsity(domains, layers, out / "sparsity.png")
    draw_locality(domains, out / "locality.png")
    draw_correlation(domains, layers, out / "correlation.png")
    draw_domains(domains, out / "domains.png")
    draw_capacity(domains, out / "capacity.png")
    text = table(domains, "; ".join(dict.fromkeys(trace.window for trace in traces)))
    (out / "summary.txt").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    sys.exit(main())
