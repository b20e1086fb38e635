#!/usr/bin/env python3
"""Decoding and prompts of two stacks of layers, ours against `transformers` on PyTorch, in BF16 on the same card.

usage: tests/gpu/torch_compare_gpu.py ENGINE_BENCH --json FILE [--seconds N] [--device cuda] [--stacks mixtral,olmoe] [--tiny] ...

The stacks have random weights and skewed routing (torch_stacks.py). Each is written once as a model folder, which both sides
read. Before anything of PyTorch is timed, logits behind a prompt are compared: ours may be off from a model in float32 by 2e-2,
or by twice what PyTorch's own BF16 is off. Decoding runs at a context, given tokens follow, and a step ends when the most
probable tokens are in the host's memory; a figure is the median of some rounds. PyTorch runs with its experts one by one
("eager", with the cache that `generate` takes) and with each other way that it has: the best of those is its fastest. Steps of
these are also recorded as CUDA graphs, which `transformers` itself does not do without torch.compile.

Cells for which no time is left, and ways that do not work, are named with the reason. The table comes last, also after a
SIGTERM. Fails where logits are wrong and where a cell of ours has no figure. TROUPE_LIBRARIES says where ENGINE_BENCH finds its libraries.
"""
import argparse
import json
import math
import os
import pathlib
import random
import selectors
import shutil
import signal
import subprocess
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"  # only folders are read
FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "bench")]
import torch_stacks  # noqa: E402
from peer_tokens import WARM_UP_STEPS, token_at  # noqa: E402
from torch_model import TorchModel, median  # noqa: E402

NO_TIME = "NOT RUN: no time was left"
LEAST_SECONDS = 5  # least time for a stack, or its model in PyTorch, to begin
LEAST_CELL_SECONDS = 2
PROMPT = 64  # tokens with compared logits
MOST_ERROR = 2e-2  # of ours against float32
MOST_ERROR_OF_BOTH = 4e-2  # of ours against PyTorch's BF16, if there was no time for float32
LEAST_EQUAL = 0.9  # share of a graph's tokens that equal those without it
EAGER = ("eager", "dynamic", False)
# (computation of experts, kind of KV cache, whether steps are a CUDA graph); graphs are last, as a failed one may leave traces.
WAYS = [EAGER, ("grouped_mm", "dynamic", False), ("batched_mm", "dynamic", False), ("grouped_mm", "static", False),
        ("batched_mm", "static", False), ("batched_mm", "static", True), ("grouped_mm", "static", True)]


def name_of(way):
    return way[0] + (", static cache" if way[1] == "static" else "") + (", graph" if way[2] else "")


class Deadline:
    def __init__(self, seconds, clock=time.monotonic):
        self.clock, self.end = clock, clock() + seconds

    def left(self):
        return self.end - self.clock()

    def has(self, seconds):
        return self.left() >= seconds

    def part(self, share):
        """A deadline after that share of what is left."""
        return Deadline(self.left() * share, self.clock)


class Engine:
    """engine_bench on a folder: one line of JSON to each line of command."""

    def __init__(self, command, log, deadline):
        environment = dict(os.environ)
        if os.environ.get("TROUPE_LIBRARIES"):
            environment["LD_LIBRARY_PATH"] = os.environ["TROUPE_LIBRARIES"]
        self.deadline, self.buffer = deadline, b""
        self.log = open(log, "a", encoding="utf-8")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=environment)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        try:
            self.about = self.read()
        except BaseException:
            self.close()
            raise

    def read(self):
        while b"\n" not in self.buffer:
            if not self.selector.select(max(0.0, self.deadline.left())):
                raise TimeoutError(NO_TIME)
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                raise RuntimeError(f"engine_bench ended with status {self.process.wait()}; see {self.log.name}")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def ask(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        return self.read()

    def rates(self, command, rounds, warm_ups=0):
        answers = [self.ask(command) for _ in range(rounds + warm_ups)][warm_ups:]
        return [answer["tokens"] / answer["seconds"] for answer in answers]

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10 if self.deadline.has(10) else 0.1)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.selector.close()
        self.process.stdout.close()
        self.log.close()


def reason_of(error):
    """One line that says why something has no figure."""
    if isinstance(error, TimeoutError):
        return NO_TIME
    text = " ".join(str(error).split())
    return f"NOT RUN: {type(error).__name__}: {text}"[:160]


def attempt(what):
    """-> a figure, or why there is none"""
    try:
        return what()
    except Exception as error:  # of any library: the next cell may work
        return reason_of(error)


def relative_error(values, reference):
    """||values - reference|| / ||reference||; NaN does not pass as small."""
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(values, reference)) / sum(b * b for b in reference))
    return error if error == error else math.inf


def judge(ours, own_bf16, reference):
    """Are our logits right? -> (right, a line). @param reference  of float32; None: there was no time for it"""
    if len(ours) != len(own_bf16):
        return False, f"WRONG: {len(ours)} logits instead of {len(own_bf16)}"
    against = own_bf16 if reference is None else reference
    error = relative_error(ours, against)
    most, text = MOST_ERROR_OF_BOTH, f"off from PyTorch's BF16 by {error:.1e}"
    if reference is not None:
        theirs = relative_error(own_bf16, reference)
        most, text = max(MOST_ERROR, 2 * theirs), f"off from float32 by {error:.1e}, PyTorch's BF16 by {theirs:.1e}"
    same = max(range(len(ours)), key=ours.__getitem__) == max(range(len(ours)), key=against.__getitem__)
    text += f"; most probable token {'equal' if same else 'differs'}"
    return error <= most, ("" if error <= most else f"WRONG, at most {most:.1e}: ") + "logits " + text


def text_of_loads(loads):
    """How uneven experts' loads are, over layers."""
    worst = [max(layer) / (sum(layer) / len(layer)) for layer in loads]
    idle = sum(layer.count(0) for layer in loads)
    return (f"the busiest of {len(loads[0])} experts has {median(worst):.1f} times the mean load in the middle one of {len(loads)} layers, "
            f"{max(worst):.1f} times in the worst; {idle} of {sum(map(len, loads))} experts have none")


def fastest_of(ways):
    """-> (name, tokens/s) of the best way that is not eager, or None"""
    figures = {name: rate for name, rate in ways.items() if name != name_of(EAGER) and isinstance(rate, float)}
    return max(figures.items(), key=lambda item: item[1]) if figures else None


def lines_of(result):
    """Reasons of what has no figure, then the table."""
    notes, rows = [], []
    for stack, found in result["stacks"].items():
        for what in ("check", "loads", "failed"):
            if found.get(what):
                notes.append(f"{stack}: {found[what]}")
        for cell, figures in found["cells"].items():
            ways = figures["ways"]
            best = fastest_of(ways)
            for name, figure in {"ours": figures["ours"], **ways}.items():
                if not isinstance(figure, float):
                    notes.append(f"{stack} {cell}, {name}: {figure}")
            shown = [figure if isinstance(figure, float) else None
                     for figure in (figures["ours"], ways.get(name_of(EAGER)), best and best[1])]
            ratio = f"{shown[0] / shown[2]:.2f}" if shown[0] and shown[2] else "-"
            rows.append([f"{stack} {cell}", *(f"{figure:.1f}" if figure else "-" for figure in shown), ratio, best[0] if best else "-"])
    head = f"{'tokens/s':<26}{'ours':>11}{'eager':>11}{'fastest':>11}{'ours/fastest':>14}  its fastest"
    table = [f"{row[0]:<26}{row[1]:>11}{row[2]:>11}{row[3]:>11}{row[4]:>14}  {row[5]}" for row in rows]
    return [*notes, "", result["about"], head, *table]


class Comparison:
    def __init__(self, args):
        self.args = args
        self.deadline = Deadline(args.seconds)
        self.result = {"about": "", "stacks": {}}
        self.right = True
        self.log = str(pathlib.Path(args.json).with_suffix(".engine.log"))

    def save(self):
        with open(self.args.json, "w", encoding="utf-8") as file:
            json.dump(self.result, file, indent=1)

    def cells(self):
        yield from ((f"decode {batch}", batch) for batch in self.args.batches)
        yield f"prefill {self.args.prompt}", None

    def tokens(self, sequence, first, count):
        return [token_at(sequence, position, self.vocab) for position in range(first, first + count)]

    def run(self):
        import torch
        import transformers

        card = self.args.device if self.args.device == "cpu" else torch.cuda.get_device_name(0)
        self.result["about"] = f"{card}, torch {torch.__version__}, transformers {transformers.__version__}, context {self.args.context}"
        torch.set_grad_enabled(False)
        for number, name in enumerate(self.args.stacks):
            found = self.result["stacks"][name] = {"cells": {cell: {"ours": NO_TIME, "ways": {}} for cell, _ in self.cells()}}
            deadline = self.deadline.part(1 / (len(self.args.stacks) - number))
            failure = attempt(lambda: self.run_stack(name, found, deadline))
            if failure:
                found["failed"], self.right = failure, False
            self.save()

    def run_stack(self, name, found, deadline):
        if not deadline.has(LEAST_SECONDS):
            raise TimeoutError(NO_TIME)
        config = torch_stacks.config_of(name, self.args.tiny, self.args.layers)
        self.vocab = config["vocab_size"]
        folder = torch_stacks.place_for(torch_stacks.bytes_of(config))
        try:
            begin = time.monotonic()
            torch_stacks.write_folder(folder, config, self.args.seed, self.args.zipf, self.args.device)
            print(f"{name}: {torch_stacks.bytes_of(config) / 1e9:.2f} GB written in {time.monotonic() - begin:.1f} s", flush=True)
            # At most half of the stack's time; PyTorch gets the rest.
            logits = self.run_ours(folder, found, deadline.part(0.5))
            print(f"{name}: ours has run, {deadline.left():.0f} s are left for it", flush=True)
            self.run_torch(folder, config, found, logits, deadline)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run_ours(self, folder, found, deadline):
        """-> logits, or why there are none"""
        args = self.args
        tokens = max(args.prompt, args.context + args.steps + WARM_UP_STEPS, PROMPT)
        command = [args.engine, folder, "--dtype", "bfloat16", "--device", args.engine_device, "--batch", str(max(args.batches)),
                   "--tokens", str((tokens + 15) // 16 * 16), *args.engine_flags.split()]
        try:
            engine = Engine(command, self.log, deadline)
        except Exception as error:
            for figures in found["cells"].values():
                figures["ours"] = reason_of(error)
            return reason_of(error)
        print(f"engine_bench: {engine.about}", flush=True)
        try:
            file = os.path.join(folder, "logits")
            logits = attempt(lambda: engine.ask(f"logits {PROMPT} {file}") and floats_of(file))
            for cell, batch in self.cells():
                ask = f"decode {batch} {args.steps} {args.context}" if batch else f"prefill {args.prompt}"
                found["cells"][cell]["ours"] = attempt(lambda: median(engine.rates(ask, args.rounds, 0 if batch else 1)))
                self.save()
            return logits
        finally:
            engine.close()

    def reference(self, folder, tokens, deadline):
        """Logits in float32, where there is time for it."""
        if not deadline.has(self.args.reference_seconds):
            return None
        model = TorchModel(folder, "float32", self.args.device)
        try:
            model.use("eager")
            return model.last_logits(tokens).tolist()
        finally:
            model.close()

    def run_torch(self, folder, config, found, ours, deadline):
        if not deadline.has(LEAST_SECONDS):
            raise TimeoutError(NO_TIME)
        prompt = self.tokens(0, 0, PROMPT)
        reference = attempt(lambda: self.reference(folder, prompt, deadline))
        if isinstance(reference, str):
            print(f"float32: {reference}")
            reference = None
        model = TorchModel(folder, "bfloat16", self.args.device)
        try:
            model.use("eager")
            theirs = model.last_logits(prompt).tolist()
            is_right, found["check"] = (False, f"logits {ours}") if isinstance(ours, str) else judge(ours, theirs, reference)
            self.right = self.right and is_right
            print(found["check"], flush=True)
            some = self.tokens(1, 0, min(512, self.args.prompt))
            found["loads"] = attempt(lambda: text_of_loads(model.loads(some, config["num_experts_per_tok"])))
            for cell, batch in self.cells():
                self.run_cell(model, config, found["cells"][cell], batch, deadline)
                self.save()
        finally:
            model.close()

    def run_cell(self, model, config, figures, batch, deadline):
        args = self.args
        filler = "eager" if isinstance(attempt(lambda: model.use("grouped_mm")), str) else "grouped_mm"
        chosen = {}

        def is_over():
            return not deadline.has(LEAST_CELL_SECONDS)

        def figure(way):
            if is_over():
                return NO_TIME
            if batch is None:
                model.refuse_copies(way[0], config, args.prompt)
                return median(model.prefill_rates(way[0], self.tokens(0, 0, args.prompt), args.rounds, is_over))
            model.refuse_copies(way[0], config, batch)
            prompts = [self.tokens(s, 0, args.context) for s in range(batch)]
            following = [[token_at(s, args.context + i, self.vocab) for s in range(batch)] for i in range(args.steps + WARM_UP_STEPS)]
            rates, chosen[way] = model.decode_rates(way, prompts, following, args.rounds, is_over, filler)
            without = chosen.get((*way[:2], False))
            if way[2] and without:
                equal = sum(a == b for a, b in zip(chosen[way], without)) / len(without)
                if equal < LEAST_EQUAL:
                    return f"NOT RUN: as a graph it chooses other tokens, {equal:.0%} are equal"
            return median(rates)

        for way in WAYS:
            if batch is not None or way[1] == "dynamic":  # a prompt has no cache yet, and is not run as a graph
                figures["ways"][name_of(way)] = attempt(lambda: figure(way))


def floats_of(file):
    import numpy

    return numpy.fromfile(file, numpy.float32).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", metavar="ENGINE_BENCH")
    parser.add_argument("--json", required=True, help="where to write everything measured")
    parser.add_argument("--seconds", type=float, default=270, help="after which nothing new begins")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="of PyTorch")
    parser.add_argument("--engine-device", default="cuda", help="of ours")
    parser.add_argument("--engine-flags", default="", help="further flags of ours, in one word")
    parser.add_argument("--stacks", default="mixtral,olmoe", type=lambda text: text.split(","))
    parser.add_argument("--batches", default="1,8,64", type=lambda text: [int(batch) for batch in text.split(",")])
    parser.add_argument("--context", type=int, default=512, help="tokens of each sequence before its decoding")
    parser.add_argument("--prompt", type=int, default=2048, help="tokens of the prefill")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, help="at most so many")
    parser.add_argument("--zipf", type=float, default=0.5, help="exponent of the experts' popularity; 0: none")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16))
    parser.add_argument("--reference-seconds", type=float, default=45, help="time that must be left for a model in float32")
    parser.add_argument("--tiny", action="store_true", help="few small layers")
    args = parser.parse_args()
    if unknown := [name for name in args.stacks if name not in torch_stacks.STACKS]:
        parser.error(f"no such stack: {', '.join(unknown)}")
    print(f"seed {args.seed}, Zipf exponent {args.zipf}", flush=True)
    comparison = Comparison(args)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    complete = False
    try:
        failure = attempt(comparison.run)
        complete = not failure
        if failure:
            print(failure)
    finally:
        cells = [figures["ours"] for found in comparison.result["stacks"].values() for figures in found["cells"].values()]
        right = complete and comparison.right and bool(cells) and all(isinstance(figure, float) for figure in cells)
        comparison.save()
        print("\n".join(lines_of(comparison.result)))
        print("logits are right and ours has every figure" if right else "SOMETHING IS WRONG or was not run", flush=True)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
