#!/usr/bin/env python3
"""load/activation_figure.py finds its counter on metrics pages, whatever their prefix."""
import pathlib
import sys
import unittest.mock
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "load"))
sys.modules["matplotlib"] = unittest.mock.MagicMock()  # nothing is drawn here
import activation_figure

PAGE = """# TYPE {prefix}expert_rows_total counter
{prefix}expert_rows_total{{model_name="m",layer="0",expert="1"}} 3
{prefix}expert_rows_total{{model_name="m",layer="2",expert="0"}} 1.5
{prefix}other_expert_rows{{layer="0",expert="1"}} 100
"""


def page(prefix):
    return "data:text/plain," + urllib.parse.quote(PAGE.format(prefix=prefix))


for prefix in ("troupe_", "vllm:", ""):
    rows = activation_figure.read_counters([page(prefix)])
    assert rows == {(0, 1): 3.0, (2, 0): 1.5}, (prefix, rows)
rows = activation_figure.read_counters([page("vllm:"), page("troupe_")])
assert rows == {(0, 1): 6.0, (2, 0): 3.0}, rows
