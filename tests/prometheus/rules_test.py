#!/usr/bin/env python3
"""Rules, dashboards, runbooks and the catalogue of metrics fit together, as far as that can be seen without a cluster.

usage: rules_test.py METRICS_TABLE
METRICS_TABLE: the program that prints the catalogue. Skipped (77) where there is no promtool.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

import runbook_entries
import shortened_rules
from promql import family_of, of_panels, selectors
from runbook_faults import FAULTS, UNTRIED


ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
TESTS = sorted((ROOT / "tests" / "prometheus").glob("*.yml"))
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
# Whose family is none of this build's, and why.
OTHERS = {"up": "Prometheus' own", "ALERTS": "Prometheus' own"}
METRICS_TABLE = sys.argv.pop(1)


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def rules(kind):
    """@returns the rules of a kind, "alert" or "record" """
    return [rule for path in RULES for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
            for rule in group["rules"] if kind in rule]


def catalogue():
    listed = json.loads(subprocess.run([METRICS_TABLE, "--json"], capture_output=True, check=True).stdout)["families"]
    return {("troupe_" if family["prefix"] else "") + family["name"]: family for family in listed}


class Rules(unittest.TestCase):
    def test_promtool_takes_them(self):
        status, said = promtool("check", "rules", "--lint=all", "--lint-fatal", *RULES)
        self.assertEqual(status, 0, said)

    def test_promtool_takes_the_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            shutil.copy(ROOT / "deploy" / "prometheus" / "prometheus.yml", folder)
            shutil.copytree(ROOT / "deploy" / "prometheus" / "rules", folder / "rules")
            status, said = promtool("check", "config", folder / "prometheus.yml")
        self.assertEqual(status, 0, said)
        self.assertIn(f"SUCCESS: {len(RULES)} rule files found", said)

    def test_alerts_fire_and_do_not_fire(self):
        for path in TESTS:
            status, said = promtool("test", "rules", path)
            self.assertEqual(status, 0, f"{path.name}: {said}")

    def test_there_is_a_test_for_both_of_each_alert(self):
        fires, silent = set(), set()
        for path in TESTS:
            for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
                for case in test["alert_rule_test"]:
                    (fires if case["exp_alerts"] else silent).add(case["alertname"])
        for rule in rules("alert"):
            self.assertIn(rule["alert"], fires)
            self.assertIn(rule["alert"], silent)

    def test_each_alert_says_how_bad_it_is_and_where_its_runbook_is(self):
        anchors = {heading.lower() for heading in re.findall(r"^## (\S+)$", RUNBOOKS, re.MULTILINE)}
        used = set()
        for rule in rules("alert"):
            self.assertIn(rule["labels"]["severity"], ("page", "ticket"), rule["alert"])
            self.assertTrue(rule["annotations"]["summary"], rule["alert"])
            page, anchor = rule["annotations"]["runbook_url"].split("#")
            self.assertEqual(page, "docs/runbooks.md")
            self.assertIn(anchor, anchors)
            self.assertIn(rule["alert"], RUNBOOKS)
            used.add(anchor)
        self.assertEqual(anchors, used, "an entry of the runbooks that no alert leads to")

    def test_a_runbook_says_all_four_things(self):
        for entry in RUNBOOKS.split("\n## ")[1:]:
            for part in ("**Means.**", "**Look", "**Do", "**Otherwise.**"):
                self.assertIn(part.lower().strip("*."), entry.lower(), entry.splitlines()[0])

    def test_expressions_ask_for_what_there_is(self):
        known = catalogue()
        recorded = {rule["record"] for rule in rules("record")}
        asked = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules("alert") + rules("record")]
        asked += [one for path in DASHBOARDS for one in of_panels(json.loads(path.read_text(encoding="utf-8")))]
        for where, expression in asked:
            found = selectors(expression)
            self.assertTrue(found, f"{where}: no series in {expression}")
            for name, _ in found:
                family = name if name in known else family_of(name)
                self.assertTrue(family in known or name in recorded or name in OTHERS, f"{where}: {name}")
                if family in known and family != name:
                    self.assertEqual(known[family]["type"], "histogram", f"{where}: {name}")

    def test_every_family_is_shown(self):
        asked = [rule["expr"] for rule in rules("record")]
        asked += [one for path in DASHBOARDS for _, one in of_panels(json.loads(path.read_text(encoding="utf-8")))]
        shown = {name for expression in asked for name, _ in selectors(expression)}
        shown |= {family_of(name) for name in shown}
        others = {name for name, family in catalogue().items() if "`vllm:`" in family["condition"]}
        self.assertEqual(set(catalogue()) - shown - others, set(), "no panel shows them")

    def test_selectors_are_found(self):
        self.assertEqual([s for _, s in selectors('sum by (le, job) (rate(a_bucket{x=~"(b}|c)?", le="2.5"}[5m])) / on (job) c:d{} > bool 1.5e3 or time() - e')],
                         ['a_bucket{x=~"(b}|c)?", le="2.5"}', "c:d{}", "e"])


class Runbooks(unittest.TestCase):
    def setUp(self):
        self.runbooks = runbook_entries.Runbooks()

    def test_commands_are_shell_and_know_their_variables(self):
        alert_labels = {"INSTANCE", "ROLE", "JOB"}
        for preamble in self.runbooks.preambles.values():
            functions = set(re.findall(r"^(\w+)\(\)", preamble, re.MULTILINE))
            self.assertLessEqual({"logs", "restart", "replace", "reload", "gone", "ask"}, functions)
        for entry in self.runbooks.entries:
            look, do = self.runbooks.commands(entry)
            self.assertTrue(look and do, f"{entry}: no commands")
            script = self.runbooks.preamble("troupe up") + "".join(look + do)
            done = subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), entry)
            commands = "".join(look + do)
            known = self.runbooks.variables | alert_labels | set(re.findall(r"^(\w+)=", commands, re.MULTILINE))
            self.assertLessEqual(set(re.findall(r"\$\{?([A-Z_]+)", re.sub(r"'[^']*'", "", commands))), known, entry)

    def test_panels_that_they_name_are_there(self):
        titles = set()
        for path in DASHBOARDS:
            board = json.loads(path.read_text(encoding="utf-8"))
            titles |= {board["title"].removeprefix("Troupe: "), *(panel["title"] for panel in board["panels"])}
        titles.add("Sizing")  # a section of operations.md
        for name in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", re.sub(r"^```\n.*?^```$", "", RUNBOOKS, flags=re.MULTILINE | re.DOTALL)):
            name = " ".join(name.split())
            self.assertTrue(any(title == name or title.startswith(f"{name} (") for title in titles), name)

    def test_each_alert_is_tried_or_said_not_to_be(self):
        tried = set(FAULTS) | {other for _, also, _ in FAULTS.values() for other in also} | set(UNTRIED)
        self.assertEqual(tried, {rule["alert"] for rule in rules("alert")})

    def test_rules_with_short_times_are_rules(self):
        with tempfile.TemporaryDirectory() as folder:
            shortened = [pathlib.Path(folder) / path.name for path in RULES]
            for path, short in zip(RULES, shortened):
                short.write_text(shortened_rules.shorten(path.read_text(encoding="utf-8")), encoding="utf-8")
            status, said = promtool("check", "rules", *shortened)
            self.assertEqual(status, 0, said)
        self.assertEqual(shortened_rules.shorten_expression("rate(a[5m]) > b[3d]"), "rate(a[5s]) > b[20s]")
        with self.assertRaises(KeyError):
            shortened_rules.shorten_expression("rate(a[7m])")


class Dashboards(unittest.TestCase):
    def test_are_what_their_script_writes(self):
        done = subprocess.run([sys.executable, ROOT / "deploy" / "grafana" / "make_dashboards.py", "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_panels_have_a_place_of_their_own(self):
        for path in DASHBOARDS:
            panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
            self.assertEqual(len({panel["id"] for panel in panels}), len(panels), path.name)
            taken = set()
            for panel in panels:
                place = panel["gridPos"]
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(cells & taken, f"{path.name}: {panel['title']} lies on another panel")
                self.assertLessEqual(place["x"] + place["w"], 24)
                taken |= cells
                if panel["type"] != "row":
                    self.assertTrue(panel["targets"], panel["title"])


if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("no promtool: deploy/install-deps.sh test")
        sys.exit(77)
    unittest.main()
