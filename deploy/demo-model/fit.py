"""The training loop: resumable, deterministic from its seed, with a progress line and held-out figures."""

import ctypes
import json
import math
import os
import time

import torch

import machine
import model as models
import optimizer as optimizers
import ranks
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


class Schedule:
    """When the rate decays, in steps; `ask` starts the decay earlier. Shared by the ranks."""

    def __init__(self, tokens, decay_tokens, per_step, warmup):
        self.per_step = per_step
        steps = max(1, tokens // per_step)
        self.warmup = min(warmup, steps // 8)
        self._ends = torch.tensor([max(0, steps - decay_tokens // per_step), steps]).share_memory_()

    @property
    def ends(self):
        """The step where the decay begins, and the number of steps."""
        return tuple(self._ends.tolist())

    @ends.setter
    def ends(self, ends):
        self._ends.copy_(torch.tensor(ends))

    @property
    def decay_from(self):
        return self.ends[0]

    @property
    def steps(self):
        return self.ends[1]

    def ask(self, path, step):
        """Starts the decay at `step` if the file `path` is there and it has not begun. The file may hold the
        number of tokens of the decay; otherwise it stays as long as it was.
        """
        decay_from, steps = self.ends
        if step < decay_from and path.exists():
            asked = path.read_text().strip()
            length = int(float(asked)) // self.per_step if asked else steps - decay_from
            self.ends = (step, step + max(1, length))
            print(f"fit: {path} found: decaying over {max(1, length)} steps", flush=True)

    def factor(self, step):
        """Returns the learning rate of a step, as a share of its peak."""
        return optimizers.trapezoid(step, self.warmup, *self.ends)


class Run:
    """One training run: what its ranks (ranks.py) share, and the loop that each of them runs.

    batches: step → int64 ids [rows, context + 1]; its windows double when the rate begins to decay, for the last
    `decay_tokens` (40 %) of `tokens`, or when a file folder/finish appears (Schedule.ask). heldout: {domain:
    (windows, bytes per token)}; its bits per byte go to folder/log.jsonl every `evaluate_every` steps.
    objective: (model, ids) → loss, instead of cross-entropy plus the balancing loss.
    """

    def __init__(
        self,
        model,
        batches,
        folder,
        tokens,
        heldout,
        muon_lr,
        adam_lr,
        decay_tokens=None,
        warmup=60,
        evaluate_every=100,
        objective=None,
        processes=1,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.place = machine.device()
        self.model = model.to(self.place).train()
        self.model.compute = machine.product_type()
        self.batches, self.folder, self.heldout, self.objective = batches, folder, heldout or {}, objective
        self.evaluate_every = evaluate_every
        self.tools = optimizers.build(model, muon_lr, adam_lr)
        decay_tokens = int(0.4 * tokens) if decay_tokens is None else decay_tokens
        self.schedule = Schedule(tokens, decay_tokens, batches.rows * batches.context, warmup)
        self.first, self.saved = 0, folder / "checkpoint.pt"
        if self.saved.exists():
            self._restore()
        self.team = ranks.Team(model, processes)
        self.figures = torch.zeros(len(self.heldout), dtype=torch.float64).share_memory_()
        self.losses = torch.zeros(processes, 2, dtype=torch.float64).share_memory_()
        self.pace = self.smooth = None
        self.saved_at = time.monotonic()

    def loop(self, rank):
        """Trains to the end, as one of the ranks."""
        step = self.first
        while step < self.schedule.steps:
            if rank == 0:
                self.schedule.ask(self.folder / "finish", step)
            self.team.wait()
            record = self._step(step, rank)
            last = step + 1 == self.schedule.steps
            if rank == 0 and (step % 10 == 9 or last):
                self._report(record)
            if self.heldout and ((step + 1) % self.evaluate_every == 0 or last):
                self._measure(record, rank)
            if rank == 0 and (time.monotonic() - self.saved_at > CHECKPOINT_SECONDS or last):
                self._save(step + 1)
            step += 1

    def _step(self, step, rank):
        """One step of the optimizers; returns its record."""
        started, count = time.monotonic(), self.team.count
        factor = self.schedule.factor(step)
        optimizers.set_rate(self.tools, factor)
        self.batches.long_from = self.schedule.decay_from
        batch = torch.from_numpy(self.batches(step)).to(self.place)
        ids = batch[rank::count]
        balance = torch.zeros((), device=self.place)
        if self.objective:
            loss = self.objective(self.model, ids) / count
        else:
            weights = spoken(ids[:, 1:]) / spoken(batch[:, 1:]).sum()
            loss, routes = self.model.loss(ids[:, :-1], ids[:, 1:], weights)
            balance = models.balance_loss(routes) / count if routes else balance
        for weight in self.team.parameters:
            weight.grad = None
        (loss + BALANCE_COEFFICIENT * balance).backward()
        self.losses[rank, 0], self.losses[rank, 1] = loss.item(), balance.item()
        self.team.reduce(rank)
        for tool in self.tools:
            tool.step()
        value, balance = self.losses.sum(0).tolist()
        self.team.wait()
        if not math.isfinite(value):
            raise SystemExit(f"fit: loss {value} at step {step}")
        self.smooth = value if self.smooth is None else 0.95 * self.smooth + 0.05 * value
        seconds = time.monotonic() - started
        self.pace = seconds if self.pace is None else 0.9 * self.pace + 0.1 * seconds
        return {
            "step": step + 1,
            "tokens": (step + 1) * self.schedule.per_step,
            "loss": self.smooth,
            "rate": factor,
            "balance": balance,
        }

    def _report(self, record):
        left = (self.schedule.steps - record["step"]) * self.pace
        print(
            f"step {record['step']}/{self.schedule.steps} loss {record['loss']:.3f} "
            f"balance {record['balance']:.3f} rate {record['rate']:.3f} "
            f"{self.schedule.per_step / self.pace:.0f} tokens/s left {_hours(left)}",
            flush=True,
        )

    def _measure(self, record, rank):
        """Appends the held-out figures to the log; the ranks share the domains."""
        for index, (windows, width) in enumerate(self.heldout.values()):
            if index % self.team.count == rank:
                self.figures[index] = heldout_loss(self.model, windows) / math.log(2) / width
        self.team.wait()
        if rank == 0:
            bits = dict(zip(self.heldout, self.figures.tolist()))
            with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({**record, "bits_per_byte": bits}) + "\n")
            shown = ", ".join(f"{domain} {bit:.3f}" for domain, bit in bits.items())
            print(f"held out, bits per byte: {shown}", flush=True)

    def _save(self, step):
        state = {
            "model": self.model.state_dict(),
            "optimizers": optimizers.state(self.tools),
            "step": step,
            "schedule": self.schedule.ends,
            "shape": vars(self.model.shape),
        }
        torch.save(state, self.saved.with_suffix(".new"))
        os.replace(self.saved.with_suffix(".new"), self.saved)
        self.saved_at = time.monotonic()

    def _restore(self):
        state = torch.load(self.saved, map_location="cpu")
        self.model.load_state_dict(state["model"])
        optimizers.restore(self.tools, state["optimizers"])
        self.first = state["step"]
        if self.first > state["schedule"][0]:
            self.schedule.ends = state["schedule"]
        print(f"fit: resuming at step {self.first}", flush=True)


def fit(model, *settings, **more):
    """Trains `model` (the arguments are Run's), or goes on from the folder's checkpoint, and returns it."""
    run = Run(model, *settings, **more)
    ranks.run(run.team.count, run.loop)
    return model.eval()
