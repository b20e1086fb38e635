#!/usr/bin/python3
"""Causes the alerts' faults on a local cluster, and carries out the runbooks as written.

    try_runbooks.py --binaries build/release/bin [--model deploy/demo-model/model] [--only ALERT,ALERT] [--quick] [--verbose]

For each alert: the fault (runbook_faults.py) is caused on a cluster of `troupe up` that a real Prometheus watches with the shipped rules, which
have short times (shortened_rules.py). When the alert fires, the commands of its entry in docs/runbooks.md run in one shell, in their order,
with the functions for `troupe up`, the alert's labels and the variables that the page lists; each must succeed. Then the alert must end, and
the whole cluster be well. A table says how long both took. Exit status 1 when an alert did not fire or end, or a command has failed.

--quick: those that take a few seconds, on one cluster; CI runs these (`system.runbooks`). All of them take seven minutes; root is needed for the
faults that stop threads or mount a file system. Exit status 77 where there is no prometheus.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import runbook_stage  # first: it sets the path of cluster
from cluster import free_port, wait_for
from runbook_entries import Runbooks, lines_of
from runbook_faults import FAULTS, Unavailable, issue

MARKER = ".try_runbooks"  # marks folders that this program made and may remove
QUICK = ("TroupeProcessDown", "TroupeReloadFailed", "TroupeDescriptorsLow", "TroupeClusterNotReady")


def empty_folder(folder):
    """Makes the folder, without what an earlier run has left there. @errors SystemExit: it holds something else"""
    if folder.exists():
        if not folder.is_dir():
            raise SystemExit(f"try_runbooks: --work {folder} is not a folder; name an empty or a new one")
        if not (folder / MARKER).exists() and any(folder.iterdir()):
            raise SystemExit(f"try_runbooks: --work {folder} is not empty, and no earlier run has made it (it lacks {MARKER}); "
                             "name an empty or a new folder: what is in it is removed")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()


@contextlib.contextmanager
def small_disk(folder):
    """A file system of 100 MB in memory, or just the folder where none can be mounted."""
    folder.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", folder], capture_output=True, check=False).returncode == 0
    try:
        yield folder / "state" if mounted else folder.parent / "state"
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)


def half_of_the_experts(model):
    """Memory in which an expert worker holds little more than half of a model's experts."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    count = config["num_hidden_layers"] * config["num_experts"]
    return int(0.6 * count * 3 * config["hidden_size"] * config["moe_intermediate_size"] * 2)


@contextlib.contextmanager
def stage_of(kind, binaries, model, work):
    with contextlib.ExitStack() as resources:
        more = {"state_dir": resources.enter_context(small_disk(work / kind / "disk"))} if kind == "plain" else {}
        flags = {
            "plain": ["--max-queue-wait", "2", "--threads", "2", "--cores", ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:2])],
            "tight": ["--expert-memory", str(half_of_the_experts(model)), "--weight-coding", "none", "--dtype", "bfloat16"],
            "crowded": ["--max-num-seqs", "16", "--kv-cache-memory", "2M", "--admission-quantile", "0.1", "--max-queued-bytes", "32K",
                        "--max-connections", "100"],
            "tls": ["--tls-cert-file", str(work / kind / "cluster" / "tls.pem"), "--tls-key-file", str(work / kind / "cluster" / "tls.key"),
                    "--management-port", str(free_port())]}[kind]
        folder = work / kind / "cluster"
        if kind == "tls":
            more |= {"trusted": folder / "tls.pem", "scheme": "https"}
        yield resources.enter_context(make_stage(binaries, model, folder, flags, kind == "tls", more))


def make_stage(binaries, model, folder, flags, has_tls, more):
    if has_tls:
        folder.mkdir(parents=True)
        subprocess.run(issue(folder, 90).split(), check=True, capture_output=True)
    return runbook_stage.Stage(binaries, model, folder, flags, **more)


def try_alert(stage, alert, runbooks, verbose):
    """@returns (seconds until it fired, seconds until it ended and all was well, commands)"""
    _, also, cause = FAULTS[alert]
    alerts = (alert, *also)
    look, do = runbooks.commands(alert)
    begin = time.monotonic()
    with cause(stage) as variables:
        for name in alerts:
            wait_for(f"{name} fires", lambda name=name: stage.firing(name), runbook_stage.PATIENCE)
        labels = stage.firing(alert)[0]
        fired = time.monotonic()
        said = stage.carry_out(runbooks.preamble("troupe up"), look + do, labels, variables)
        if verbose:
            print(said)
        for name in alerts:
            wait_for(f"{name} ends", lambda name=name: not stage.firing(name), runbook_stage.PATIENCE)
        ended = time.monotonic()
    stage.wait_until_calm()
    return fired - begin, ended - fired, [line for block in look + do for line in lines_of(block)]


def report(rows):
    """rows: (alert, (seconds, seconds, commands) or a sentence)"""
    print(f"\n{'alert':30} {'fires':>8} {'ends':>8}  commands")
    for alert, outcome in rows:
        if isinstance(outcome, str):
            print(f"{alert:30} {outcome}")
        else:
            fires, ends, commands = outcome
            print(f"{alert:30} {fires:6.1f} s {ends:6.1f} s  {commands[0]}")
            for command in commands[1:]:
                print(f"{'':50} {command}")


def try_all(options, work):
    runbooks, rows, failed = Runbooks(), [], False
    chosen = QUICK if options.quick else options.only.split(",") if options.only else list(FAULTS)
    try:
        for kind in dict.fromkeys(FAULTS[alert][0] for alert in chosen):
            with stage_of(kind, options.binaries, options.model, work) as stage:
                for alert in (name for name in chosen if FAULTS[name][0] == kind):
                    print(f"{alert} ...", flush=True)
                    try:
                        rows.append((alert, try_alert(stage, alert, runbooks, options.verbose)))
                    except Unavailable as reason:
                        rows.append((alert, f"not tried: {reason}"))
                    except Exception:
                        traceback.print_exc()
                        rows.append((alert, "FAILED, see above"))
                        failed = True
                        stage.mend()
    finally:  # even if a cluster does not start, or cannot be repaired
        report(rows + [(other, f"with {alert}") for alert, _ in rows for other in FAULTS[alert][1]])
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, default=runbook_stage.ROOT / "deploy" / "demo-model" / "model")
    parser.add_argument("--work", type=pathlib.Path, help="an empty folder, a new one or that of an earlier run, which is emptied; "
                        "default: a new one, which is removed")
    parser.add_argument("--only", help="names of alerts, with commas between them")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="print what the commands say")
    options = parser.parse_args()
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print("no prometheus: deploy/install-deps.sh test")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        if options.work:
            empty_folder(options.work)
        sys.exit(try_all(options, (options.work or pathlib.Path(folder)).resolve()))


if __name__ == "__main__":
    main()
