"""What a trace of expert activations shows: the figures of "Towards MoE Deployment" (Huang et al.), sections III and IV.

Pure functions over traces. load/activation_trace.hpp describes the file. Arrays are [windows, experts] rows of one layer,
where nothing else is said.
"""

import json

import numpy

FORMAT = "troupe-trace 1"
MAX_WINDOWS = 1 << 16


class Trace:
    """name: of the trace; window: what one window is; layers: which decoder layers they are; domains: {name: Windows}"""

    def __init__(self, name, window, layers, domains):
        self.name, self.window, self.layers, self.domains = name, window, layers, domains


class Windows:
    """rows: one [windows, experts] array a layer; tokens: [windows]"""

    def __init__(self, rows, tokens):
        self.rows, self.tokens = rows, tokens


def read_trace(path):
    """@throws ValueError that names file and line"""
    with open(path, encoding="utf-8") as lines:
        header = _object(path, 1, next(lines, ""))
        if header.get("format") != FORMAT:
            raise ValueError(f"{path}:1: 'format' is not '{FORMAT}'")
        name = str(header.get("trace", path))
        found, shape = {}, None
        for number, line in enumerate(lines, 2):
            if number - 1 > MAX_WINDOWS:
                raise ValueError(f"{path}:{number}: more than {MAX_WINDOWS} windows")
            window = _object(path, number, line)
            rows = window.get("rows")
            if not isinstance(rows, list) or not rows or not all(isinstance(layer, list) and layer for layer in rows):
                raise ValueError(f"{path}:{number}: 'rows' is no list of the rows of each layer's experts")
            if shape is None:
                shape = [len(layer) for layer in rows]
            if [len(layer) for layer in rows] != shape:
                raise ValueError(f"{path}:{number}: 'rows' has another shape than before")
            tokens = window.get("tokens", sum(rows[0]) / header.get("top_k", 1))
            if tokens > 0 and all(sum(layer) > 0 for layer in rows):
                found.setdefault(window.get("domain", name), []).append((rows, tokens))
    if not found:
        raise ValueError(f"{path}: no window has any rows")
    domains = {
        domain: Windows(
            [numpy.array([rows[layer] for rows, _ in windows], float) for layer in range(len(shape))],
            numpy.array([tokens for _, tokens in windows], float),
        )
        for domain, windows in found.items()
    }
    layers = header.get("layers", list(range(len(shape))))
    window = header.get("window", f"{header.get('batch', '?')} requests of {header.get('tokens', '?')} tokens")
    return Trace(name, window, layers, domains)


def _object(path, number, line):
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{path}:{number}: no JSON object")
    return value


def joined(traces):
    """Several traces of one model as one: {domain: Windows}. @throws ValueError where shapes or names do not fit"""
    domains, shape = {}, None
    for trace in traces:
        for name, windows in trace.domains.items():
            own = [rows.shape[1] for rows in windows.rows]
            if name in domains:
                raise ValueError(f"domain {name} comes twice")
            if shape not in (None, own):
                raise ValueError(f"domain {name} is of a model of another shape")
            domains[name], shape = windows, own
    return domains


def shares(rows):
    """Rows as shares of their window. [windows, experts]"""
    return rows / rows.sum(1, keepdims=True)


def popularity(rows):
    """Each expert's share of all rows. [experts]"""
    return rows.sum(0) / rows.sum()


def idle_share(rows):
    """Share of experts without a row, mean over windows (fig. 7)."""
    return float((rows == 0).mean())


def expected_idle_share(rows, tokens, batch):
    """Share of experts that `batch` tokens would leave without a row, if they were drawn from a window one by one.

    An expert that n of a window's T tokens chose is idle with (1 - n/T)^batch. Tokens of a real batch are more alike
    than that, so it leaves more experts idle.
    """
    chosen = numpy.minimum(1.0, rows / tokens[:, None])
    return float(((1 - chosen) ** batch).mean())


def hot_experts(rows, share=0.25):
    """The busiest experts of each window, so many that they are this share of all. [windows, experts] booleans"""
    count = max(1, round(share * rows.shape[1]))
    order = numpy.argsort(-rows, axis=1, kind="stable")
    hot = numpy.zeros(rows.shape, bool)
    numpy.put_along_axis(hot, order[:, :count], True, axis=1)
    return hot


def hot_stays(rows, lag, share=0.25):
    """Of a window's hot experts, the share that are hot `lag` windows later, too; by chance it would be `share`."""
    if lag >= len(rows):
        return float("nan")
    hot = hot_experts(rows, share)
    return float((hot[:-lag] & hot[lag:]).sum() / hot[:-lag].sum())


def correlation(rows):
    """Pearson's of each two experts' shares over windows; 0 for one whose share never changes. [experts, experts]"""
    deviations = shares(rows)
    deviations = deviations - deviations.mean(0)
    lengths = numpy.sqrt((deviations**2).sum(0))
    lengths[lengths < 1e-12] = numpy.inf
    normal = deviations / lengths
    result = normal.T @ normal
    numpy.fill_diagonal(result, 1.0)
    return result


def off_diagonal(matrix):
    return matrix[~numpy.eye(len(matrix), dtype=bool)]


def difference(rows, others):
    """Share of rows that other experts get: total variation distance of two popularities, from 0 to 1; nan without windows."""
    if len(rows) == 0 or len(others) == 0:
        return float("nan")
    return float(abs(popularity(rows) - popularity(others)).sum() / 2)


def halves(rows):
    """Every other window, and the rest: how far apart two samples of the same load are."""
    return rows[0::2], rows[1::2]


class Waste:
    """dropped: share of rows beyond an expert's capacity; computed: rows that are computed, padding included, over those
    that are needed; fills_all: share of windows in which nothing is dropped"""

    def __init__(self, dropped, computed, fills_all):
        self.dropped, self.computed, self.fills_all = dropped, computed, fills_all


def static_capacity(rows, tokens, factor):
    """What a capacity of `factor` x tokens for every expert would have done in these windows (section III-B)."""
    capacity = numpy.ceil(factor * tokens)
    beyond = numpy.maximum(0, rows - capacity[:, None]).sum(1)
    needed = rows.sum()
    return Waste(
        float(beyond.sum() / needed),
        float((capacity * rows.shape[1]).sum() / needed),
        float((beyond == 0).mean()),
    )


def least_capacity(rows, tokens):
    """The smallest factor with which no row of any window is dropped."""
    return float((rows.max(1) / tokens).max())


def even_capacity(rows, tokens):
    """The factor that would do if every expert had equally many rows: top-k over the number of experts."""
    return float(rows.sum() / tokens.sum() / rows.shape[1])
