#!/usr/bin/env python3
"""The arithmetic and output of torch_compare_gpu.py, and all of it without a GPU and without `transformers`.

usage: tests/gpu/torch_compare_gpu_test.py [ENGINE_BENCH_EMULATED]

stand_in/transformers.py stands for `transformers`; what needs PyTorch is skipped where there is none, and the comparison with
engine_bench where none is named.
"""
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
import torch_compare_gpu as compare  # noqa: E402
import torch_stacks as stacks  # noqa: E402

ENGINE = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
HAS_TORCH = importlib.util.find_spec("torch") is not None
SMALL = ["--device", "cpu", "--tiny", "--batches", "1,3", "--context", "20", "--prompt", "64", "--steps", "2", "--rounds", "1", "--seed", "1"]
RECORDED = {
    "about": "a card, torch 2, transformers 5, context 512",
    "stacks": {
        "mixtral": {
            "check": "logits off from float32 by 4.0e-03, PyTorch's BF16 by 9.0e-03; most probable token equal",
            "loads": "the busiest of 8 experts has 1.7 times the mean load",
            "cells": {
                "decode 1": {"ours": 600.0, "ways": {"eager": 100.0, "grouped_mm": 200.0, "batched_mm, static cache, graph": 400.0}},
                "decode 64": {"ours": 9000.0, "ways": {"eager": compare.NO_TIME, "grouped_mm": compare.NO_TIME}},
            },
        },
        "olmoe": {"failed": "NOT RUN: OSError: no room", "cells": {"prefill 2048": {"ours": compare.NO_TIME, "ways": {}}}},
    },
}
# Answers like engine_bench, with constant logits.
FAKE_ENGINE = """#!/usr/bin/python3
import json, struct, sys
print(json.dumps({"ready": True, "engine": "a test"}), flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "logits":
        open(words[2], "wb").write(struct.pack("512f", *[1.0] * 512))
    print(json.dumps({"tokens": 100, "seconds": 2.0}), flush=True)
"""


def run(engine, *flags, modules=FOLDER / "stand_in"):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "result.json")
        done = subprocess.run([sys.executable, "-B", str(FOLDER / "torch_compare_gpu.py"), engine, "--json", file, *flags], timeout=200,
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(modules)}, check=False)
        result = json.loads(pathlib.Path(file).read_text(encoding="utf-8")) if os.path.exists(file) else None
        return done.returncode, done.stdout.splitlines(), done.stderr, result


class Reckoned(unittest.TestCase):
    def test_a_deadline_and_its_parts(self):
        now = [100.0]
        whole = compare.Deadline(60, lambda: now[0])
        half = whole.part(0.5)
        now[0] += 20
        self.assertEqual((whole.left(), half.left()), (40, 10))
        self.assertTrue(half.has(10))
        self.assertFalse(half.has(11))

    def test_tokens_are_those_of_peer_workload(self):
        self.assertEqual(compare.token_at(0, 0, 1 << 32), 0xE220A8397B1DCDAF % (1 << 32))  # splitmix64's first number for seed 0

    def test_logits(self):
        reference = [1.0, 2.0, 3.0]
        self.assertEqual(compare.judge([1.0, 2.0, 3.01], [1.0, 2.0, 3.0], reference)[0], True)
        right, text = compare.judge([1.0, 2.0, 3.4], [1.0, 2.0, 3.0], reference)
        self.assertFalse(right)
        self.assertIn("WRONG", text)
        self.assertTrue(compare.judge([1.0, 2.0, 3.2], [1.0, 2.0, 3.2], reference)[0], "as far off as PyTorch itself")
        self.assertFalse(compare.judge([1.0, 2.0, float("nan")], reference, reference)[0])
        self.assertFalse(compare.judge([1.0, 2.0], reference, reference)[0])
        self.assertTrue(compare.judge([1.0, 2.0, 3.1], reference, None)[0])

    def test_the_fastest_way_is_never_eager(self):
        self.assertEqual(compare.fastest_of({"eager": 9.0, "grouped_mm": 2.0, "batched_mm": compare.NO_TIME}), ("grouped_mm", 2.0))
        self.assertIsNone(compare.fastest_of({"eager": 9.0, "grouped_mm": compare.NO_TIME}))

    def test_the_table_comes_last_and_names_what_is_missing(self):
        lines = compare.lines_of(RECORDED)
        head = next(i for i, line in enumerate(lines) if line.startswith("tokens/s"))
        rows = [line.split() for line in lines[head + 1:]]
        self.assertEqual(rows[0], "mixtral decode 1 600.0 100.0 400.0 1.50 batched_mm, static cache, graph".split())
        self.assertEqual(rows[1], "mixtral decode 64 9000.0 - - - -".split())
        self.assertEqual(rows[2], "olmoe prefill 2048 - - - - -".split())
        notes = "\n".join(lines[:head])
        self.assertIn("mixtral decode 64, eager: NOT RUN: no time was left", notes)
        self.assertIn("olmoe: NOT RUN: OSError: no room", notes)

    def test_reasons_are_one_short_line(self):
        self.assertEqual(compare.attempt(lambda: 1 / 0), "NOT RUN: ZeroDivisionError: division by zero")
        self.assertLessEqual(len(compare.reason_of(RuntimeError("CUDA error\n" * 100))), 160)

    def test_popularity_falls_with_the_rank(self):
        biases = stacks.router_biases(64, 0.5, 2048, random.Random(1))
        self.assertEqual(max(biases), 0.0)
        self.assertEqual(len(set(biases)), 64)
        self.assertNotEqual(biases, sorted(biases, reverse=True))
        self.assertEqual(set(stacks.router_biases(8, 0, 64, random.Random(1))), {0.0})

    def test_a_header_says_where_tensors_lie(self):
        data = stacks.header_of([("a", (2, 3)), ("b", (5,))])
        length = int.from_bytes(data[:8], "little")
        self.assertEqual((length + 8, length % 8), (len(data), 0))
        self.assertEqual([entry["data_offsets"] for entry in json.loads(data[8:]).values()], [[0, 12], [12, 22]])

    def test_a_folder_needs_room(self):
        with tempfile.TemporaryDirectory() as place:
            self.assertTrue(stacks.place_for(1000, [place + "/none", place]).startswith(place))
            with self.assertRaisesRegex(OSError, "no room"):
                stacks.place_for(1 << 60, [place])


class Engines(unittest.TestCase):
    def engine(self, text, seconds):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name, "engine")
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        engine = compare.Engine([str(program)], os.path.join(folder.name, "log"), compare.Deadline(seconds))
        self.addCleanup(engine.close)
        return engine

    def test_answers_become_rates(self):
        self.assertEqual(self.engine(FAKE_ENGINE, 20).rates("decode 1 2", 2, 1), [50.0, 50.0])

    def test_one_that_does_not_answer_is_given_up(self):
        engine = self.engine("#!/bin/sh\necho '{}'\nread line\nexec sleep 60\n", 1)
        self.assertEqual(compare.attempt(lambda: engine.ask("decode 1 2")), compare.NO_TIME)

    def test_one_that_dies_says_so(self):
        with self.assertRaisesRegex(RuntimeError, "status 3"):
            self.engine("#!/bin/sh\nexit 3\n", 20)


class WholeRuns(unittest.TestCase):
    def test_unknown_stacks_are_refused(self):
        status, _, errors, _ = run("/none", "--stacks", "dense")
        self.assertEqual(status, 2)
        self.assertIn("no such stack: dense", errors)

    def test_without_torch_it_says_so_and_prints_its_table(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "torch.py").write_text("raise ImportError('there is no torch')\n", encoding="utf-8")
            status, lines, _, _ = run("/none", *SMALL, modules=folder)
        self.assertEqual(status, 1)
        self.assertIn("NOT RUN: ImportError: there is no torch", lines)
        self.assertTrue(lines[-2].startswith("tokens/s"), lines)

    @unittest.skipUnless(HAS_TORCH, "no PyTorch")
    def test_wrong_logits_fail(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "engine")
            program.write_text(FAKE_ENGINE, encoding="utf-8")
            program.chmod(0o755)
            status, lines, _, result = run(str(program), *SMALL, "--stacks", "olmoe", "--seconds", "100")
        self.assertEqual(status, 1)
        self.assertIn("WRONG", result["stacks"]["olmoe"]["check"])
        self.assertEqual(result["stacks"]["olmoe"]["cells"]["decode 3"]["ours"], 50.0)
        self.assertIn("SOMETHING IS WRONG or was not run", lines[-1])

    @unittest.skipUnless(HAS_TORCH, "no PyTorch")
    def test_without_time_every_cell_says_so(self):
        status, lines, _, result = run("/none", *SMALL, "--seconds", "0")
        self.assertEqual(status, 1)
        self.assertEqual({cell["ours"] for found in result["stacks"].values() for cell in found["cells"].values()}, {compare.NO_TIME})
        self.assertTrue(any(line.startswith("tokens/s") for line in lines), lines)

    @unittest.skipUnless(HAS_TORCH, "no PyTorch")
    @unittest.skipUnless(ENGINE, "no engine_bench_emulated was named")
    def test_ours_on_an_emulated_gpu_gives_the_logits_of_another_implementation(self):
        status, lines, errors, result = run(ENGINE, *SMALL, "--seconds", "180", "--reference-seconds", "0")
        self.assertEqual(status, 0, "\n".join([*lines, errors]))
        for found in result["stacks"].values():
            self.assertIn("logits off from float32", found["check"])
            for figures in found["cells"].values():
                self.assertIsInstance(figures["ways"]["batched_mm"], float)
                self.assertIn("is not here", figures["ways"]["grouped_mm"])


class Script(unittest.TestCase):
    def test_run_sh_compare_prints_the_table_last(self):
        """tests/gpu/run.sh compare, with a Python that has recorded figures."""
        with tempfile.TemporaryDirectory() as folder:
            table = "\n".join(compare.lines_of(RECORDED))
            programs = {"python3": f"[ \"$1\" != -c ] || exit 1\necho \"$@\"\ncat <<'END'\n{table}\nEND\nexit 1", "nvidia-smi": "echo a card"}
            for name, text in programs.items():
                path = pathlib.Path(folder, name)
                path.write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
                path.chmod(0o755)
            environment = {**os.environ, "OUT": folder + "/out", "TROUPE_GPU_CARRIED": folder + "/carried", "TROUPE_GPU_LOGS": folder + "/logs",
                           "TROUPE_GPU_SECONDS": "60", "PATH": f"{folder}:{os.environ['PATH']}"}
            done = subprocess.run([str(FOLDER / "run.sh"), "compare"], env=environment, capture_output=True, text=True, timeout=60, check=False)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"torch_compare_gpu.py \S*carried/engine_bench --json \S*compare.json --seconds 4\d")
        table_at = max(i for i, line in enumerate(lines) if line.startswith("tokens/s"))
        summary_at = next(i for i, line in enumerate(lines) if line.startswith("compare "))
        self.assertLess(table_at, summary_at)
        self.assertIn("FAILED with status 1", lines[summary_at])
        self.assertIn("SOMETHING IS WRONG", lines[-1])


if __name__ == "__main__":
    unittest.main()
