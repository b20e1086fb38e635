#!/usr/bin/python3
"""The needs of models of some sizes: workers, memory limits, time to start, network. The tables of *Sizing* in
docs/operations.md.

  sizing.py            prints the tables
  sizing.py --check    compares them with the document

The rules are those of the programs (services/expert/expert_room.cpp, services/attention/kv_room.cpp), whose constants are read
from their sources. Each example has one expert worker more than its experts need, so that one may be lost.
"""
import dataclasses
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "operations.md"
MIB, GIB = 1 << 20, 1 << 30
KV_TOKENS = 100_000
POSITIONS = 32_768  # --max-model-len
DISKS = (100, 200, 1000)  # MB/s
VALUE = 2  # bytes of a bfloat16


def constant(file, pattern):
    """The integer that a source gives a constant."""
    found = re.search(pattern + r"\D*?= *(?:std::uint64_t\{)?(\d+)", (ROOT / file).read_text(encoding="utf-8"))
    assert found, f"{file}: no {pattern}"
    return int(found[1])


PROGRAM = constant("services/options/memory_budget.hpp", "program_bytes") * MIB
QUEUED_ROWS = constant("actors/protocol/defaults.hpp", "max_queued_expert_rows")
BATCHED_TOKENS = constant("actors/protocol/defaults.hpp", "max_num_batched_tokens")
LOGITS_ROWS = constant("actors/engine/step_sampling.hpp", "logits_chunk_rows")


@dataclasses.dataclass
class Model:
    """By its config.json, and the bytes that a weight of an expert takes."""

    name: str
    layers: int
    hidden: int
    experts: int
    top_k: int
    intermediate: int
    heads: int
    kv_heads: int
    workers: int
    bytes_a_weight: float = 2
    head_dim: int = 128
    vocab: int = 151_936

    @property
    def expert(self):
        return math.ceil(3 * self.hidden * self.intermediate * self.bytes_a_weight)

    @property
    def count(self):
        return self.layers * self.experts

    @property
    def all_experts(self):
        return self.count * self.expert

    @property
    def dense(self):
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return VALUE * (self.layers * (attention + self.hidden * self.experts) + 2 * self.vocab * self.hidden)

    @property
    def kv_token(self):
        return 2 * self.layers * self.kv_heads * self.head_dim * VALUE


MODELS = (
    Model("Qwen3-30B-A3B, `--expert-quant int4`", 48, 2048, 128, 8, 768, 32, 4, workers=3, bytes_a_weight=0.5 + 2 / 32),
    Model("Qwen3-30B-A3B", 48, 2048, 128, 8, 768, 32, 4, workers=4),
    Model("Qwen3-235B-A22B", 94, 4096, 128, 8, 1536, 64, 4, workers=8),
    Model("Qwen3-Coder-480B-A35B, coded exponents", 62, 6144, 160, 8, 2560, 96, 8, workers=8, bytes_a_weight=1.5),
)


def expert_worker(model):
    """@returns (memory limit, expert memory that follows from it, bytes that it reads at the start)"""
    reserve = PROGRAM + 2 * QUEUED_ROWS * model.hidden * VALUE + 4 * model.expert
    of_survivor = math.ceil(model.count / (model.workers - 1)) * model.expert
    limit = math.ceil((reserve + of_survivor * 17 / 16) / GIB) * GIB
    assert 2 * QUEUED_ROWS * model.hidden * VALUE <= limit / 8, "fewer rows may wait where they would take more"
    return limit, (limit - reserve) // 17 * 16, math.ceil(model.count / model.workers) * model.expert


def attention_worker(model):
    """@returns (memory limit, memory beside weights and KV cache)"""
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    row = model.hidden * (4 + 3 * VALUE) + (queries + 2 * keys) * 4 + queries * VALUE
    row += 2 * model.top_k * model.hidden * VALUE + model.experts * 4
    reserve = BATCHED_TOKENS * row + LOGITS_ROWS * model.vocab * 4 + POSITIONS * model.head_dim * 4
    return math.ceil((PROGRAM + model.dense + reserve + KV_TOKENS * model.kv_token) / GIB) * GIB, reserve


def network(model):
    """@returns bytes of rows that a token takes, both ways"""
    touched = model.workers * (1 - (1 - 1 / model.workers) ** model.top_k)
    return model.layers * (touched + model.top_k) * model.hidden * VALUE


def seconds(value):
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


def table(heads, rows):
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)] + ["| " + " | ".join(row) + " |" for row in rows])


def tables():
    memory, time = [], []
    for model in MODELS:
        limit, room, share = expert_worker(model)
        attention, _ = attention_worker(model)
        memory.append([model.name, f"{(model.all_experts + model.dense) / 1e9:.0f} GB",
                       f"{model.count:,} of {model.expert / 1e6:.1f} MB", str(model.workers), f"{limit // GIB}Gi",
                       f"{room / GIB:.1f} GiB", f"{share / 1e9:.1f} GB", f"{attention // GIB}Gi",
                       f"{model.dense / 1e9:.1f} GB", f"{model.kv_token / 1e3:.0f} KB, {KV_TOKENS * model.kv_token / 1e9:.1f} GB"])
        time.append([model.name, *(seconds(share / 1e6 / disk) for disk in DISKS),
                     *(seconds(model.dense / 1e6 / disk) for disk in DISKS), f"{network(model) / 1e6:.1f} MB",
                     f"{network(model) * 8 * 100 / 1e9:.1f} Gbit/s"])
    return (table(["model", "weights", "experts", "expert workers", "`limits.memory` of each", "expert memory that follows",
                   "held while all are there", "`limits.memory` of an attention worker", "its weights",
                   f"KV of a token, of {KV_TOKENS:,}"], memory),
            table(["model", *(f"expert worker, {disk} MB/s" for disk in DISKS), *(f"attention worker, {disk} MB/s" for disk in DISKS),
                   "network of a token", "of 100 tokens/s"], time))


def main():
    if sys.argv[1:] != ["--check"]:
        print("\n\n".join(tables()))
        return 0
    text = DOCUMENT.read_text(encoding="utf-8")
    missing = [made for made in tables() if made not in text]
    for made in missing:
        print(f"{DOCUMENT}: this table is missing or another one:\n{made}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
