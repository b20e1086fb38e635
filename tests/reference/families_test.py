#!/usr/bin/python3
"""What can be said of the families' forward passes without another implementation, on the small random models.

Logits are finite and causal, latent attention has two equal forms, routers by groups do as a plain loop does. Whatever
a config says of a family's own ways is seen in the logits, by more than golden_test.cpp allows an engine to be off, and
tensors that a server may ignore are not.
"""

import itertools
import json
import os
import pathlib
import tempfile
import unittest

import numpy as np

import families
import make_model
import routing
import safetensors_file
from rounding import StochasticBfloat16
from values import values_of

VISIBLE = 1e-3  # what golden_test.cpp allows
EARLIER = ("mixtral", "olmoe", "qwen2", "qwen3")
VARIANTS = [name for name, (architecture, *_) in make_model.VARIANTS.items() if architecture not in EARLIER]
TOKENS = [int(token) for token in np.random.default_rng(5).integers(0, 260, 100)]

# variant: fields and values that must lead to other logits
FIELDS = {
    "glm4_moe": {
        "partial_rotary_factor": 1.0,
        "use_qk_norm": False,
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
        "n_shared_experts": 0,
    },
    "glm4_moe_air": {"partial_rotary_factor": 1.0},
    "glm4_moe_rope_parameters": {"rope_parameters.partial_rotary_factor": 0.5, "rope_parameters.rope_theta": 1e6},
    "dots1": {"routed_scaling_factor": 1.0, "norm_topk_prob": False, "n_shared_experts": 0},
    "minimax_m2": {"rotary_dim": 24},
    "minimax_m2_rope_parameters": {"rope_parameters.partial_rotary_factor": 1.0},
    "ernie4_5_moe": {"moe_k": 3, "moe_num_shared_experts": 0},
    "hunyuan_v1_moe": {"rope_scaling.alpha": 1.0},
    "hunyuan_v1_moe_lists": {"moe_topk": [4, 2, 3]},
    "hunyuan_v1_moe_numbers": {"moe_topk": 4},
    "granitemoeshared": {
        "attention_multiplier": 0.25,
        "embedding_multiplier": 1.0,
        "residual_multiplier": 1.0,
        "logits_scaling": 1.0,
        "shared_intermediate_size": 0,
    },
    "deepseek_v2": {
        "rope_scaling.mscale_all_dim": 0.0,
        "rope_interleave": False,
        "routed_scaling_factor": 1.0,
        "topk_method": "greedy",
        "topk_group": 1,
    },
    "deepseek_v2_mscale": {"rope_scaling.mscale": 0.707},
    "deepseek_v3": {
        "rope_scaling.mscale_all_dim": 0.0,
        "rope_scaling.factor": 2,
        "rope_interleave": False,
        "n_group": 1,
        "topk_group": 4,
        "norm_topk_prob": False,
    },
    "deepseek_v3_rope_parameters": {"rope_parameters.mscale_all_dim": 0.0},
    "kimi_k2": {"rope_scaling.beta_fast": 32.0, "routed_scaling_factor": 1.0},
    "glm4_moe_lite": {"rope_interleave": False, "routed_scaling_factor": 1.0},
    "gpt_moe": {"num_experts_per_tok": 2, "layer_norm_epsilon": 1e-2},
    "gpt_moe_top2": {"num_experts_per_tok": 1},
    "gpt_oss": {
        "swiglu_limit": 7.0,
        "sliding_window": 12,
        "rope_scaling.truncate": True,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
    },
    "phimoe": {
        "router_jitter_noise": 0.0,
        "rope_scaling.long_mscale": 1.0,
        "rope_scaling.long_factor": [1.0] * 8,
        "rope_scaling.original_max_position_embeddings": 256,
    },
    "phimoe_short": {"rope_parameters.short_mscale": 1.0, "rope_parameters.original_max_position_embeddings": 64},
    "llama4": {
        "text_config.attention_chunk_size": 14,
        "text_config.use_qk_norm": False,
        "text_config.attn_temperature_tuning": False,
        "text_config.no_rope_layers": [1, 1, 1, 1],
        "text_config.rope_scaling": None,
    },
    "llama4_maverick": {"text_config.use_qk_norm": True, "text_config.no_rope_layers": [1, 1, 1, 0]},
}

# Endings of tensors that must be seen in the logits when they are 0.
SEEN = {
    "glm4_moe": ["e_score_correction_bias", "q_norm.weight", "k_proj.bias", "shared_experts.up_proj.weight"],
    "dots1": ["e_score_correction_bias"],
    "minimax_m2": ["e_score_correction_bias"],
    "ernie4_5_moe": ["e_score_correction_bias"],
    "hunyuan_v1_moe": ["query_layernorm.weight", "shared_mlp.up_proj.weight"],
    "deepseek_v3": ["e_score_correction_bias", "q_a_layernorm.weight", "kv_a_layernorm.weight"],
    "kimi_k2": ["e_score_correction_bias"],
    "gpt_moe": ["position_embeddings.weight", "query_key_value.bias", "mlp.dense_h_to_4h.bias"],
    "gpt_oss": ["sinks", "router.bias", "o_proj.bias", "gate_up_proj_bias", "down_proj_bias"],
    "phimoe": ["lm_head.bias", "input_layernorm.bias", "model.norm.bias", "o_proj.bias"],
    "llama4": ["shared_expert.up_proj.weight"],
}

# Parts of names of tensors that may hold anything.
IGNORED = {
    "glm4_moe": "model.layers.3.",
    "glm4_moe_lite": "model.layers.3.",
    "deepseek_v3": "model.layers.3.",
    "ernie4_5_moe": "model.mtp_",
    "llama4": "vision_model.",
}


class Folders:
    """The random models, each made once, and copies with something changed."""

    def __init__(self):
        self.root = tempfile.TemporaryDirectory()
        self.numbers = itertools.count()
        self.logits_of = {}

    def folder(self, variant):
        path = os.path.join(self.root.name, variant)
        if not os.path.exists(path):
            make_model.make(variant, path, seed=1)
        return path

    def logits(self, variant):
        if variant not in self.logits_of:
            self.logits_of[variant] = families.load(self.folder(variant)).logits(TOKENS)
        return self.logits_of[variant]

    def with_field(self, variant, field, value):
        source = pathlib.Path(self.folder(variant))
        path = pathlib.Path(self.root.name, str(next(self.numbers)))
        path.mkdir()
        for file in source.glob("*.safetensors"):
            os.link(file, path / file.name)
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        *outer, last = field.split(".")
        inner = config
        for name in outer:
            inner = inner[name]
        inner[last] = value
        (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return str(path)

    def with_tensors(self, variant, changed, values):
        """A copy in which tensors have values(their values) where changed(their name)."""
        config = make_model.config_of(variant)
        dtype = make_model.VARIANTS[variant][2]
        original = values_of(1, None, config.get("tie_word_embeddings", False), make_model.outputs_of(config))
        tensors = [
            (name, shape, make_model.dtype_of(config, name, dtype)) for name, shape in make_model.tensors_of(config)
        ]
        assert any(changed(name) for name, _, _ in tensors), variant

        def new_values(name, shape):
            kept = original(name, shape)
            return values(kept).astype(np.float32) if changed(name) else kept

        path = os.path.join(self.root.name, str(next(self.numbers)))
        os.makedirs(path)
        os.link(os.path.join(self.folder(variant), "config.json"), os.path.join(path, "config.json"))
        safetensors_file.write(os.path.join(path, "model.safetensors"), tensors, new_values)
        return path


def setUpModule():
    global folders
    folders = Folders()


def tearDownModule():
    folders.root.cleanup()


def difference(a, b):
    return np.abs(a - b).max()


class AForwardPass(unittest.TestCase):
    def test_is_finite(self):
        for variant in VARIANTS:
            with self.subTest(variant):
                self.assertTrue(np.isfinite(folders.logits(variant)).all())

    def test_is_causal(self):
        changed = [*TOKENS[:-1], (TOKENS[-1] + 1) % 260]
        for variant in VARIANTS:
            with self.subTest(variant):
                logits = families.load(folders.folder(variant)).logits(changed)
                self.assertLess(difference(logits[:-1], folders.logits(variant)[:-1]), 1e-9)
                self.assertGreater(difference(logits[-1], folders.logits(variant)[-1]), VISIBLE)

    def test_sees_the_fields_of_its_config(self):
        for variant, fields in FIELDS.items():
            for field, value in fields.items():
                with self.subTest(variant, field=field):
                    logits = families.load(folders.with_field(variant, field, value)).logits(TOKENS)
                    self.assertGreater(difference(logits, folders.logits(variant)), VISIBLE)

    def test_sees_its_tensors(self):
        for variant, endings in SEEN.items():
            for ending in endings:
                with self.subTest(variant, tensor=ending):
                    path = folders.with_tensors(variant, lambda name, e=ending: name.endswith(e), np.zeros_like)
                    self.assertGreater(difference(families.load(path).logits(TOKENS), folders.logits(variant)), VISIBLE)

    def test_ignores_tensors_of_other_tasks(self):
        for variant, part in IGNORED.items():
            with self.subTest(variant):
                path = folders.with_tensors(variant, lambda name, p=part: p in name, lambda values: values * np.nan)
                np.testing.assert_array_equal(families.load(path).logits(TOKENS), folders.logits(variant))

    def test_needs_float32_of_a_bias_that_chooses(self):
        for variant in ("glm4_moe", "deepseek_v3"):
            with self.subTest(variant):
                rounded = folders.with_tensors(
                    variant,
                    lambda name: name.endswith("e_score_correction_bias"),
                    lambda values: safetensors_file.from_bfloat16_bits(safetensors_file.to_bfloat16_bits(values)),
                )
                self.assertGreater(difference(families.load(rounded).logits(TOKENS), folders.logits(variant)), VISIBLE)

    def test_keeps_float32_tensors_when_it_rounds(self):
        for variant, name in (
            ("glm4_moe_air", "model.layers.1.mlp.gate.weight"),
            ("ernie4_5_moe", "model.layers.1.mlp.moe_statics.e_score_correction_bias"),
            ("minimax_m2", "model.layers.0.block_sparse_moe.gate.weight"),
            ("gpt_moe", "language_model.encoder.layers.1.mlp.deepspeed_moe.gate.wg.weight"),
            ("hunyuan_v1_moe", "model.layers.0.mlp.gate.wg.weight"),
        ):
            with self.subTest(variant):
                exact = families.load(folders.folder(variant))
                rounded = families.load(folders.folder(variant), StochasticBfloat16(1))
                np.testing.assert_array_equal(rounded.tensors[name], exact.tensors[name])


class LatentAttention(unittest.TestCase):
    def test_absorbed_form_equals_expanded_form(self):
        for variant in VARIANTS:
            model = families.load(folders.folder(variant))
            if hasattr(model, "absorbs"):
                with self.subTest(variant):
                    self.assertFalse(model.absorbs)
                    model.absorbs = True
                    self.assertLess(difference(model.logits(TOKENS), folders.logits(variant)), 1e-9)


class Routers(unittest.TestCase):
    """Compared with loops over tokens, groups and experts."""

    experts, groups, kept_groups, k = 16, 4, 2, 4

    def setUp(self):
        rng = np.random.default_rng(3)
        self.logits = 2.0 * rng.standard_normal((200, self.experts))
        self.bias = 0.3 * rng.standard_normal(self.experts)

    def members(self, group):
        size = self.experts // self.groups
        return range(group * size, (group + 1) * size)

    def chosen_within_groups(self, choice, group_score):
        best = sorted(range(self.groups), key=lambda group: -group_score(choice, group))[: self.kept_groups]
        candidates = [expert for group in sorted(best) for expert in self.members(group)]
        return sorted(candidates, key=lambda expert: -choice[expert])[: self.k]

    def check(self, routed, expected):
        for chosen, weights, (expected_chosen, expected_weights) in zip(*routed, expected, strict=True):
            self.assertEqual(list(chosen), expected_chosen)
            np.testing.assert_allclose(weights, expected_weights, rtol=1e-13)

    def test_noaux_tc_sums_the_two_best_of_a_group(self):
        expected = []
        for logits in self.logits:
            scores = [1.0 / (1.0 + np.exp(-logit)) for logit in logits]
            choice = [score + bias for score, bias in zip(scores, self.bias)]
            chosen = self.chosen_within_groups(
                choice, lambda c, group: sum(sorted(c[e] for e in self.members(group))[-2:])
            )
            total = sum(scores[expert] for expert in chosen)
            expected.append((chosen, [2.5 * scores[expert] / total for expert in chosen]))
        self.check(
            routing.noaux_tc(self.logits, self.bias, self.k, True, 2.5, self.groups, self.kept_groups), expected
        )

    def test_group_limited_greedy_takes_the_best_of_a_group(self):
        expected = []
        for logits in self.logits:
            total = sum(np.exp(logit) for logit in logits)
            scores = [np.exp(logit) / total for logit in logits]
            chosen = self.chosen_within_groups(scores, lambda s, group: max(s[e] for e in self.members(group)))
            expected.append((chosen, [4.0 * scores[expert] for expert in chosen]))
        self.check(routing.group_limited_greedy(self.logits, self.k, 4.0, self.groups, self.kept_groups), expected)

    def test_sparsemixer_weighs_against_those_that_come_close(self):
        jitter, expected, alone = 0.1, [], 0
        for logits in self.logits:
            left, chosen, weights = dict(enumerate(logits)), [], []
            for _ in range(2):
                winner = max(left, key=left.get)
                largest = left[winner]
                close = [e for e, x in left.items() if (largest - x) / max(abs(x), largest) <= 2 * jitter]
                chosen.append(winner)
                weights.append(np.exp(largest) / sum(np.exp(left[e]) for e in close))
                alone += len(close) == 1
                del left[winner]
            expected.append((chosen, weights))
        self.assertTrue(0 < alone < 400)
        self.check(routing.sparsemixer(self.logits, jitter), expected)


if __name__ == "__main__":
    unittest.main()
