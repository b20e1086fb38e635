"""The training loop: resumable, deterministic from its seed, with a progress line and held-out figures."""

import ctypes
import json
import math
import os
import time

import torch

import model as models
import optimizer as optimizers
import tokenizer as bpe

BALANCE_COEFFICIENT = 0.01
CHECKPOINT_SECONDS = 120


def keep_memory():
    """Tells glibc to keep freed blocks: a training step's large tensors are otherwise mapped and zeroed every
    time.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except OSError:
        return
    mallopt(-4, 0)  # M_MMAP_MAX
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


def device():
    """Returns the GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def spoken(targets):
    """Returns 1 for the tokens a model should learn to say and 0 for those that open a chat turn: a server
    adds them.
    """
    return ((targets == bpe.END_OF_TEXT) | (targets >= len(bpe.SPECIAL_TOKENS))).float()


@torch.no_grad()
def heldout_loss(model, windows):
    """Returns the mean cross-entropy, in nats per token, of int64 ids [windows, tokens + 1]."""
    model.eval()
    place, total = next(model.parameters()).device, 0.0
    for start in range(0, len(windows), 8):
        ids = torch.from_numpy(windows[start : start + 8]).to(place)
        total += model.loss(ids[:, :-1], ids[:, 1:])[0].item() * len(ids)
    model.train()
    return total / len(windows)


def _hours(seconds):
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"


def fit(
    model,
    batches,
    folder,
    tokens,
    heldout,
    muon_lr,
    adam_lr,
    warmup=60,
    decay_share=0.4,
    evaluate_every=100,
    objective=None,
):
    """Trains `model` for `tokens` tokens, or on from folder/checkpoint.pt, and returns it.

    batches: step → int64 ids [rows, context + 1]. heldout: {domain: (windows, bytes per token)}; its bits per
    byte go to folder/log.jsonl. objective: (model, ids) → loss, instead of cross-entropy plus the
    balancing loss.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = device()
    model.to(place)
    tools = optimizers.build(model, muon_lr, adam_lr)
    per_step = batches.rows * batches.context
    steps, first = max(1, tokens // per_step), 0
    warmup = min(warmup, steps // 8)
    saved = folder / "checkpoint.pt"
    if saved.exists():
        state = torch.load(saved, map_location=place)
        model.load_state_dict(state["model"])
        for tool, tool_state in zip(tools, state["optimizers"]):
            tool.load_state_dict(tool_state)
        first = state["step"]
        print(f"fit: resuming at step {first}", flush=True)

    def save(step):
        state = {
            "model": model.state_dict(),
            "optimizers": [tool.state_dict() for tool in tools],
            "step": step,
            "shape": vars(model.shape),
        }
        torch.save(state, saved.with_suffix(".new"))
        os.replace(saved.with_suffix(".new"), saved)

    def log(record):
        with open(folder / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    half = torch.autocast(place.type, dtype=torch.bfloat16, enabled=place.type == "cuda")
    pace, saved_at, smooth = None, time.monotonic(), None
    for step in range(first, steps):
        started = time.monotonic()
        factor = optimizers.warmup_stable_decay(step, steps, warmup, decay_share)
        optimizers.set_rate(tools, factor)
        ids = torch.from_numpy(batches(step)).to(place)
        with half:
            if objective:
                loss, balance = objective(model, ids), torch.zeros(())
                total = loss
            else:
                targets = ids[:, 1:]
                loss, routes = model.loss(ids[:, :-1], targets, spoken(targets))
                balance = models.balance_loss(routes) if routes else torch.zeros((), device=place)
                total = loss + BALANCE_COEFFICIENT * balance
        for tool in tools:
            tool.zero_grad(set_to_none=True)
        total.backward()
        for tool in tools:
            tool.step()
        value = loss.item()
        if not math.isfinite(value):
            raise SystemExit(f"fit: loss {value} at step {step}")
        smooth = value if smooth is None else 0.95 * smooth + 0.05 * value
        pace = (
            (time.monotonic() - started) if pace is None else 0.9 * pace + 0.1 * (time.monotonic() - started)
        )
        if step % 10 == 9 or step + 1 == steps:
            print(
                f"step {step + 1}/{steps} loss {value:.3f} mean {smooth:.3f} balance {float(balance):.3f} "
                f"rate {factor:.3f} {per_step / pace:.0f} tokens/s left {_hours((steps - step - 1) * pace)}",
                flush=True,
            )
        if heldout and ((step + 1) % evaluate_every == 0 or step + 1 == steps):
            bits = {
                domain: heldout_loss(model, windows) / math.log(2) / width
                for domain, (windows, width) in heldout.items()
            }
            log(
                {
                    "step": step + 1,
                    "tokens": (step + 1) * per_step,
                    "loss": smooth,
                    "rate": factor,
                    "balance": float(balance),
                    "bits_per_byte": bits,
                }
            )
            print(
                "held out, bits per byte: "
                + ", ".join(f"{domain} {bit:.3f}" for domain, bit in bits.items()),
                flush=True,
            )
        if time.monotonic() - saved_at > CHECKPOINT_SECONDS or step + 1 == steps:
            save(step + 1)
            saved_at = time.monotonic()
    model.eval()
    return model
