#!/usr/bin/env python3
"""Rules, dashboards, runbooks and the catalogue of metrics fit together, as far as can be checked without a cluster.

usage: rules_test.py METRICS_TABLE
METRICS_TABLE: the program that prints the catalogue. Skipped (77) where there is no promtool.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import yaml

import runbook_entries
import shortened_rules
from promql import family_of, of_panels, selectors
from runbook_faults import FAULTS
from try_runbooks import MARKER, empty_folder


ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
TESTS = sorted((ROOT / "tests" / "prometheus").glob("*.yml"))
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
# Series of other programs, and whose.
OTHERS = {"up": "Prometheus' own", "ALERTS": "Prometheus' own", "kube_pod_container_status_restarts_total": "kube-state-metrics'"}
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
                for case in test.get("alert_rule_test", ()):
                    (fires if case["exp_alerts"] else silent).add(case["alertname"])
        for rule in rules("alert"):
            self.assertIn(rule["alert"], fires)
            self.assertIn(rule["alert"], silent)

    def test_each_alert_says_how_bad_it_is_and_where_its_runbook_is(self):
        anchors = {heading.lower() for heading in re.findall(r"^## (\S+)$", RUNBOOKS, re.MULTILINE)}
        used = set()
        for rule in rules("alert"):
            self.assertIn(rule["labels"]["severity"], ("critical", "warning"), rule["alert"])
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

    def bash(self, cluster, commands, fake="", **variables):
        """Runs commands behind a preamble. @param fake  shell that is defined between them. @returns what they print"""
        kubectl = 'kubectl() { case "$*" in *=scheduler*) echo r-troupe-scheduler-0 ;; *) echo ;; esac; }'  # tests/helm/runbooks_test.py has more
        script = f"set -euo pipefail\n{kubectl}\n{self.runbooks.preamble(cluster)}\n{fake}\n{commands}"
        done = subprocess.run(["bash", "-c", script], text=True, check=False, capture_output=True, env={
            "PATH": os.environ["PATH"], "RELEASE": "r", "NAMESPACE": "default", "GATEWAY": "http://gateway", **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""), commands)
        return done.stdout

    def line_of(self, alert, start):
        """The one line of an alert's commands that begins so."""
        found = [line for blocks in self.runbooks.commands(alert) for block in blocks for line in runbook_entries.lines_of(block)
                 if line.startswith(start)]
        self.assertEqual(len(found), 1, (alert, start))
        return found[0]

    def test_commands_are_shell_and_know_their_variables(self):
        alert_labels = {"INSTANCE", "ROLE", "JOB"}
        self.assertEqual(len(self.runbooks.preambles), 3)
        for preamble in self.runbooks.preambles.values():
            functions = set(re.findall(r"^(\w+)\(\)", preamble, re.MULTILINE))
            self.assertLessEqual({"logs", "previous", "name_of", "restart", "replace", "reload", "gone", "ask", "pid_of", "inside", "content", "edit"}, functions)
            self.assertLessEqual({"SCHEDULER", "GATEWAYS", "LABEL"}, set(re.findall(r"(?<![^ \n])([A-Z]+)=", preamble)))
        for entry in self.runbooks.entries:
            look, do = self.runbooks.commands(entry)
            self.assertTrue(look and do, f"{entry}: no commands")
            for first, preamble in self.runbooks.preambles.items():
                for script in (preamble, "".join(look + do), preamble + "".join(look + do)):
                    done = subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True, check=False)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), f"{entry}, {first}")
            commands = "".join(look + do)
            known = self.runbooks.variables | alert_labels | set(re.findall(r"^(\w+)=", commands, re.MULTILINE))
            self.assertLessEqual(set(re.findall(r"\$\{?([A-Z_]+)", re.sub(r"'[^']*'", "", commands))), known, entry)

    def test_only_a_worker_that_has_not_joined_again_is_gone(self):
        def log(*events):
            return "\n".join(f"2025-01-01T00:00:{second:02}.000Z info scheduler-0 {event} at 127.0.0.1:7" for second, event in enumerate(events))

        joined = [f"worker-joined: expert-{number}" for number in range(3)]
        for cluster in ("troupe up", "Kubernetes", "systemd"):
            def gone(*events, what="", cluster=cluster):
                fake = "logs() { cat <<< \"$LINES_OF_LOG\"; }\nhostname() { echo node; }"
                return self.bash(cluster, f"gone {what}", fake, LINES_OF_LOG=log(*joined, *events)).split()

            self.assertEqual(gone(), [])
            self.assertEqual(gone("worker-gone: expert-1"), ["expert-1"])
            self.assertEqual(gone("worker-gone: expert-1", "worker-joined: expert-1"), [])
            self.assertEqual(gone("worker-gone: expert-2", "worker-gone: expert-1", "worker-joined: expert-1"), ["expert-2"])
            self.assertEqual(gone("worker-gone: expert-1", "worker-gone: expert-2"), ["expert-2"])
            self.assertEqual(gone("worker-hung: expert-1", "worker-gone: expert-1", "worker-gone: expert-2", what="worker-hung"), ["expert-1"])
            self.assertEqual(gone("worker-hung: expert-1", "worker-gone: expert-1", "worker-joined: expert-1", what="worker-hung"), [])

    def test_nobody_is_ended_or_drained_without_a_name(self):
        for entry in self.runbooks.entries:
            for block in self.runbooks.commands(entry)[1]:
                for line in runbook_entries.lines_of(block):
                    for name in re.findall(r"(?:replace|restart|--worker) (\S+)", line):
                        is_of_alert = name == "$PROCESS" or name == '"$SCHEDULER"'
                        is_guarded = ":?" in name or re.search(rf"\[ -n {re.escape(name.strip(';'))} \]|^for name in ", line)
                        self.assertTrue(is_of_alert or is_guarded, f"{entry}: {line}")

    def test_names_of_processes_are_those_of_the_deployment(self):
        show = 'echo "$SCHEDULER"'
        self.assertEqual(self.bash("troupe up", show), "scheduler-0\n")
        self.assertEqual(self.bash("Kubernetes", show), "r-troupe-scheduler-0\n")
        machine = socket.gethostname()
        for name, unit in (("scheduler-", "troupe-scheduler"), ("gateway-", "troupe-gateway")):
            self.assertEqual(self.bash("systemd", f"unit {name}{machine}"), f"{unit}\n")
        self.assertEqual(self.bash("systemd", f"unit expert-{machine}-3"), "troupe-expert@3\n")
        other = self.bash("systemd", "replace expert-far-away-0 2>&1 || true", "systemctl() { echo called; }")
        self.assertEqual(other, "expert-far-away-0 runs on far-away: do this there\n")

    def test_the_end_of_a_process_is_in_what_it_said_before(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            log.write_text("T info expert-1 failed: the disk is gone\nT info expert-0 ready\n"
                           "T info up supervisor: expert-1 ended with status 1; starting it again in 100 ms\nT info expert-1 ready\n", encoding="utf-8")
            said = self.bash("troupe up", "previous expert-1", LOG=str(log)).splitlines()
            self.assertEqual([line.split(" ")[2] for line in said], ["expert-1", "up"])
            self.assertEqual(self.bash("troupe up", "previous expert-0", LOG=str(log)), "")

    def test_the_slow_worker_is_one_that_is_slower_than_the_others(self):
        line = self.line_of("TroupeTokensSlow", "SLOW=")
        late = self.line_of("TroupeTokensSlow", "LATE=")
        expression = self.bash("troupe up", f"{late}\n{line}", 'ask() { echo "$1" >&3; }\nexec 3>&1').strip()

        def named(*seconds):
            series = [{"series": f'scrape_duration_seconds{{role="expert",process="expert-{number}"}}', "values": f"{one}x20"}
                      for number, one in enumerate(seconds)]
            slowest = max(range(len(seconds)), key=seconds.__getitem__)
            expected = [{"labels": f'{{role="expert",process="expert-{slowest}"}}', "value": seconds[slowest]}]
            results = {}
            for is_named, samples in ((False, []), (True, expected)):
                with tempfile.TemporaryDirectory() as folder:
                    test = pathlib.Path(folder) / "test.yml"
                    test.write_text(yaml.safe_dump({"tests": [{"interval": "10s", "input_series": series, "promql_expr_test": [
                        {"expr": expression, "eval_time": "2m", "exp_samples": samples}]}]}), encoding="utf-8")
                    results[is_named] = promtool("test", "rules", test)
            self.assertEqual(sum(status == 0 for status, _ in results.values()), 1, results)
            return results[True][0] == 0

        self.assertFalse(named(0.004, 0.004))
        self.assertFalse(named(0.1, 0.11, 0.12))
        self.assertFalse(named(0.001, 0.001, 0.008), "all answer within 10 ms")
        self.assertTrue(named(0.004, 0.1))
        self.assertTrue(named(0.02, 0.021, 0.05, 0.02))
        show = f'{late}\n{line}\necho "$SLOW"'
        sample = '{instance="n1:7080", job="troupe", pod="b", process="a", role="expert"} => 0.1 @[1.5]'
        for cluster, name in (("troupe up", "a"), ("Kubernetes", "b"), ("systemd", "n1:7080")):
            self.assertEqual(self.bash(cluster, show, f"ask() {{ echo '{sample}'; }}"), f"{name}\n")
            self.assertEqual(self.bash(cluster, show, "ask() { :; }"), "\n")
        status = "WORKER ROLE ENDPOINT\nexpert-n1-0 expert n1:9000 5 ms\nexpert-n10-0 expert n10:9000 5 ms"
        self.assertEqual(self.bash("systemd", "name_of n1:7080", f"troupe() {{ echo '{status}'; }}"), "expert-n1-0\n")

    def test_all_of_the_drained_and_all_that_load_are_named(self):
        for alert, variable, before in (("TroupeLoadImbalanced", "DRAINED", "drained"), ("TroupePlacementStuck", "LOADING", "loading")):
            line = self.line_of(alert, f"{variable}=")
            for said, names in ((f"{before}: a", ["a"]), (f"{before}: a, b", ["a", "b"]), ("drained: none", [])):
                fake = f"troupe() {{ echo 'planner: on'; echo '{said}'; }}"
                self.assertEqual(self.bash("troupe up", f"{line}\nfor name in ${variable}; do echo $name; done", fake).split(), names)

    def test_folders_of_others_are_not_removed(self):
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder) / "work"
            empty_folder(work)
            (work / "log").touch()
            empty_folder(work)
            self.assertEqual([path.name for path in work.iterdir()], [MARKER])
            (work / MARKER).unlink()
            empty_folder(work)
            (work / MARKER).unlink()
            (work / "thesis").touch()
            with self.assertRaisesRegex(SystemExit, f"{work} is not empty"):
                empty_folder(work)
            self.assertTrue((work / "thesis").exists())
            with self.assertRaisesRegex(SystemExit, "is not a folder"):
                empty_folder(work / "thesis")

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
        tried = set(FAULTS) | {other for _, also, _ in FAULTS.values() for other in also}
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
