"""Trains the demo model, from the packages' text to a Hugging Face folder.

    python3 deploy/demo-model/train.py --work DIR [--tokens N] [--decay-tokens N] [--warm-start MODEL_DIR]
                                       [--companions] [--export MODEL_DIR]

Stages, each skipped when DIR already holds its result: the text (DIR/data, see gather.py), the tokenizer
(DIR/tokenizer.json), the token streams (DIR/tokens), training (DIR/main/checkpoint.pt, resumed where it
stopped), evaluation and export, and with --companions the two drafts (DIR/draft, DIR/draft-boosted).
--warm-start goes on from an exported model (with its DIR/tokenizer.json) as another stage of its training: a
warm-up, a plateau and a decay of its own, over batches that no other stage saw. A file DIR/main/finish
(fit.py) starts the decay before its time.
--export-now only exports the last checkpoint, while another process trains, say. --smoke runs all of it in
miniature in a temporary folder and checks what comes out.

It uses a GPU where PyTorch sees one. `deploy/install-deps.sh train` installs what it needs.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # before PyTorch

import numpy
import torch

import card
import companions
import corpus
import evaluate
import fit
import folder
import gather
import model as models
import prompts
import tokenizer as bpe

SEED = 20240511
FIGURE = pathlib.Path(__file__).resolve().parents[2] / "load" / "activation_figure.py"
TOKENIZER_BYTES = 2_500_000  # of each domain


class Plan:
    """The sizes of a run."""

    vocabulary = 4096
    max_bytes = gather.MAX_BYTES
    shape = {}
    window = 256  # tokens; doubled while the rate decays
    rows = 24  # windows of one step
    tokens = 20_000_000
    decay_tokens = None  # 40 % of `tokens`
    rates = (6e-3, 3e-3)  # peak rates of Muon and AdamW
    processes = 1 if machine.device().type == "cuda" else len(os.sched_getaffinity(0))
    draft_tokens = 3_000_000
    draft_shape = {}
    heldout_windows = 16
    evaluate_every = 100  # steps
    prompts, records = prompts.PROMPTS, prompts.RECORDS


class SmokePlan(Plan):
    """All stages in under a minute: enough to see that they fit together, not to learn a language."""

    vocabulary = 640
    max_bytes = 120_000
    shape = {
        "hidden": 32,
        "layers": 2,
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 16,
        "experts": 4,
        "intermediate": 16,
    }
    window = 64
    rows = 8
    tokens = 30_000
    draft_tokens = 15_000
    draft_shape = {"hidden": 16, "layers": 1, "heads": 1, "intermediate": 16}
    heldout_windows = 4
    evaluate_every = 30
    prompts, records = 6, 4


def prepare(work, seed, plan):
    """Gathers text, learns the tokenizer, tokenizes; returns the tokenizer and {stream: ids}."""
    data = work / "data"
    if not (data / "sources.json").exists():
        gather.gather(data, seed, plan.max_bytes)
    if not (work / "tokenizer.json").exists():
        texts = []
        for domain in gather.DOMAINS:
            size = 0
            for document in corpus.read(data, domain, "train"):
                size += len(document["text"].encode())
                texts.append(document["text"])
                if size > TOKENIZER_BYTES:
                    break
        (work / "tokenizer.json").write_text(
            bpe.dumps(bpe.train(texts, plan.vocabulary).to_json()), encoding="utf-8"
        )
    tokenizer = bpe.Tokenizer.from_json(work / "tokenizer.json")
    streams = work / "tokens"
    if not (streams / "chat.npy").exists():
        streams.mkdir(exist_ok=True)
        for name, ids in corpus.tokenize(data, tokenizer, seed, gather.DOMAINS).items():
            numpy.save(streams / f"{name}.npy", ids)
    return tokenizer, {name: numpy.load(streams / f"{name}.npy") for name in (*gather.DOMAINS, "chat")}


def heldout(work, tokenizer, window, count):
    """Returns {domain: (held-out windows, bytes per token in them)}, for the figures logged while training.
    """
    chosen = {}
    for domain in gather.DOMAINS:
        windows = corpus.heldout_windows(work / "data", tokenizer, domain, window, count)
        size = sum(len(tokenizer.token_bytes[token]) for token in windows[:, 1:].reshape(-1))
        chosen[domain] = windows, size / windows[:, 1:].size
    return chosen


def stages(work, before, seed, rates):
    """Returns the training of the model: one {"seed", "rates", "step_tokens", "records"} for each stage, those
    `before` and the one in work/main, of whose log at most 16 records are kept, the last one among them.
    """
    records = [json.loads(line) for line in (work / "main" / "log.jsonl").read_text().splitlines()]
    kept = records[:: -max(1, math.ceil(len(records) / 16))][::-1]
    step_tokens = kept[-1]["tokens"] // kept[-1]["step"]
    return [*before, {"seed": seed, "rates": list(rates), "step_tokens": step_tokens, "records": kept}]


def warm_start(source, model, tokenizer):
    """Loads the weights of the folder `source` into `model`; returns the stages of their training."""
    weights, theirs = folder.load(source)
    if theirs.to_json() != tokenizer.to_json():
        raise SystemExit(f"train: the tokenizer of {source} is not the one made from this text")
    if vars(weights.shape) != vars(model.shape):
        raise SystemExit(f"train: {source} has another shape: {weights.shape}")
    model.load_state_dict(weights.state_dict())
    return json.loads((source / "training.json").read_text())


def export(model, tokenizer, work, out, sets, training):
    """Writes the model folder `out` with its card, evaluated on the held-out sets under `sets`; returns the
    figures.
    """
    folder.save(model, tokenizer, out)
    figures = evaluate.evaluate(*folder.load(out), sets / "heldout")
    (out / "evaluation.json").write_text(json.dumps(figures) + "\n")
    (out / "training.json").write_text(json.dumps(training) + "\n")
    subprocess.run(
        [sys.executable, FIGURE, "--rows", out / "evaluation.json", "--out", out / "activations.png"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    card.write(out, work, figures, training)
    for domain, figure in figures.items():
        print(
            f"export: {domain}: perplexity {figure['perplexity']:.4f}, "
            f"bits per byte {figure['bits_per_byte']:.4f}",
            flush=True,
        )
    return figures


def run(work, seed, plan, out, sets, source, with_companions, export_only):
    """Runs every stage; returns the evaluation of the exported model."""
    work.mkdir(parents=True, exist_ok=True)
    tokenizer, streams = prepare(work, seed, plan)
    prompts.write(work / "data", tokenizer, sets, plan.prompts, plan.records)
    shape = models.Shape(vocabulary=len(tokenizer), context=2 * plan.window, **plan.shape)
    model = models.Model(shape, seed)
    chosen = heldout(work, tokenizer, plan.window, plan.heldout_windows)
    before = warm_start(source, model, tokenizer) if source else []
    order = seed + 100 * len(before)  # another order of the text in every stage
    if export_only:
        model.load_state_dict(torch.load(work / "main" / "checkpoint.pt", map_location="cpu")["model"])
        return export(model.eval(), tokenizer, work, out, sets, stages(work, before, order, plan.rates))
    print(
        f"train: {sum(map(len, streams.values()))} tokens of text; parameters: %d, active per token: %d"
        % models.parameters(shape),
        flush=True,
    )
    model = fit.fit(
        model,
        corpus.Batches(streams, plan.window, plan.rows, order),
        work / "main",
        plan.tokens,
        chosen,
        *plan.rates,
        decay_tokens=plan.decay_tokens,
        evaluate_every=plan.evaluate_every,
        processes=plan.processes,
    )
    training = stages(work, before, order, plan.rates)
    figures = export(model, tokenizer, work, out, sets, training)
    if with_companions:
        drafts = companions.train(model, tokenizer, streams, chosen, work, seed, plan)
        print(f"companions: {drafts}", flush=True)
        card.write(out, work, figures, training, drafts)
    return figures


def check_resuming(work, seed, plan):
    """Fails unless a run that stops half-way and is resumed gives the weights of one that does not stop."""
    streams = {name: numpy.load(work / "tokens" / f"{name}.npy") for name in (*gather.DOMAINS, "chat")}
    shape = models.Shape(vocabulary=plan.vocabulary, context=2 * plan.window, **plan.shape)
    step = plan.rows * plan.window

    def trained(name, *ends):
        for tokens, decay in ends:
            model = models.Model(shape, seed)
            batches = corpus.Batches(streams, plan.window, plan.rows, seed)
            fit.fit(model, batches, work / name, tokens, None, *plan.rates, decay, processes=plan.processes)
        return model.state_dict()

    whole, parts = trained("whole", (8 * step, 2 * step)), trained("parts", (4 * step, 0), (8 * step, 2 * step))
    for name, weight in whole.items():
        if not torch.equal(weight, parts[name]):
            raise SystemExit(f"smoke: a resumed run has another {name} than one that ran through")
    print("smoke: a resumed run has the weights of one that ran through", flush=True)


def smoke(seed):
    """Runs the recipe in miniature; fails unless the loss fell, the exported folder evaluates and a resumed run
    is the same as a whole one.
    """
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        figures = run(work, seed, SmokePlan, work / "model", work / "sets", None, True, False)
        uniform = math.log(SmokePlan.vocabulary)
        for domain, figure in figures.items():
            if not figure["nats_per_token"] < uniform - 0.5:
                raise SystemExit(
                    f"smoke: {domain}: {figure['nats_per_token']:.3f} nats per token, no better than chance"
                )
        check_resuming(work, seed, SmokePlan)
        sizes = {path.name: path.stat().st_size for path in sorted((work / "model").iterdir())}
        print(f"smoke: ok, {len(figures)} domains, model folder {sizes}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, help="folder for text, tokens and checkpoints")
    parser.add_argument(
        "--tokens", type=int, default=Plan.tokens, help="budget; the rate decays to zero at its end"
    )
    parser.add_argument(
        "--decay-tokens", type=int, help="how many of them the decay takes (40 %%)"
    )
    parser.add_argument("--warm-start", type=pathlib.Path, help="an exported model to go on from")
    parser.add_argument(
        "--draft-tokens", type=int, default=Plan.draft_tokens, help="budget of the first draft"
    )
    parser.add_argument("--export", type=pathlib.Path, help="the model folder (DIR/export)")
    parser.add_argument("--sets", type=pathlib.Path, help="folder for prompts/ and heldout/ (DIR/sets)")
    parser.add_argument("--companions", action="store_true", help="train the two drafts, too")
    parser.add_argument("--export-now", action="store_true", help="export the last checkpoint and stop")
    parser.add_argument(
        "--smoke", action="store_true", help="the whole recipe in miniature, in a temporary folder"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--muon-rate", type=float, default=Plan.rates[0])
    parser.add_argument("--adam-rate", type=float, default=Plan.rates[1])
    parser.add_argument("--processes", type=int, default=Plan.processes, help="one for each core, say")
    arguments = parser.parse_args()
    if not arguments.smoke and not arguments.work:
        parser.error("--work DIR or --smoke")
    torch.manual_seed(arguments.seed)
    if arguments.processes > 1:
        torch.set_num_threads(1)  # the forks must neither find a thread pool, nor make one each
    fit.keep_memory()
    if arguments.smoke:
        smoke(arguments.seed)
        return
    plan, work = Plan(), arguments.work
    plan.tokens, plan.decay_tokens = arguments.tokens, arguments.decay_tokens
    plan.draft_tokens, plan.processes = arguments.draft_tokens, arguments.processes
    plan.rates = arguments.muon_rate, arguments.adam_rate
    run(
        work,
        arguments.seed,
        plan,
        arguments.export or work / "export",
        arguments.sets or work / "sets",
        arguments.warm_start,
        arguments.companions,
        arguments.export_now,
    )


if __name__ == "__main__":
    main()
