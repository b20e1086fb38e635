#!/usr/bin/python3
"""A rendered release whose weights take long to load, through what a cluster goes through: nobody who could have been served
is refused, no container is killed for its memory, and what was lost is back as soon as it could be loaded.

usage: heavy_weights_test.py BINARIES WORK_DIR CACHE [--load SECONDS] [--away SECONDS] [--without-cgroups]
       [SCENARIO...]

An expert worker's share of the weights is what it holds while all is well; the disk is so slow that it takes --load to load,
and limits.memory of an expert worker is 1.9 shares. Requests come at a rate while these happen:
"""
import argparse
import collections
import contextlib
import json
import math
import pathlib
import secrets
import shutil
import signal
import sys
import time

import cgroups
import chart
import open_loop
import pods
import tools
import watch
from cluster import Cluster
from disks import Disk
from fuse_disk import FuseDisk
from watch import DARK, HOSTLESS, LEADERLESS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
import make_model  # noqa: E402

MODEL, MODEL_FOLDER = "qwen3_403mb", "model"
RATE = 2  # new requests a second
TOKENS = 12
LIMIT = 1.9  # shares
READ_AROUND = 1.25  # bytes that a disk reads per requested byte: mapped files are read ahead, and around
PROGRAM = 80 << 20  # bytes that an expert worker takes beside experts
RECOVERY = 10  # seconds beyond the time to load
QUIET = 2  # seconds of requests before and after the event

Scale = collections.namedtuple("Scale", "load away")
Case = collections.namedtuple("Case", "run workers copies awaited says")  # awaited: the expected trouble, or None


def rolling_upgrade(cluster, scale, render):
    """All workloads get a new template at once, as `helm upgrade` does it."""
    cluster.apply(render('pods.podAnnotations={"release": "next"}'))
    pods.wait_for("the rollout", cluster.done, 60 + 8 * scale.load)


def lost_machine(component):
    """The machine of a pod of the component is lost, and comes back."""
    def run(cluster, scale, _):
        lost = cluster.of(component)[0]
        lost.lose_machine()
        time.sleep(scale.away)  # events must not depend on it
        lost.start_machine()
    return run


def drains(cluster, scale, _):
    """Each machine in turn is drained; the next one when all is well again."""
    for machine in range(cluster.machines):
        cluster.drain(machine, 60 + 4 * scale.load)
        pods.wait_for("all pods", cluster.done, 60 + 4 * scale.load)


CASES = {
    "lost-worker": Case(lost_machine("expert"), 2, 1, HOSTLESS, "expert worker's machine away, 2 workers, 1 host for each expert"),
    "upgrade-2": Case(rolling_upgrade, 2, 1, None, "all roles upgraded at once, 2 workers, 1 host for each expert"),
    "upgrade-3": Case(rolling_upgrade, 3, 2, None, "all roles upgraded at once, 3 workers, 2 hosts for each expert"),
    "lost-scheduler": Case(lost_machine("scheduler"), 2, 1, LEADERLESS, "scheduler's machine away"),
    "drains": Case(drains, 3, 2, None, "3 machines drained in turn, 3 workers, 2 hosts for each expert"),
}
COLUMNS = ("what happens", "requests", "right", "told to wait, and excused", "failed", "slowest, s", "an expert without host, s",
           "no scheduler, s", "no endpoint, s", "OOM kills", "restarts", "served again after, s", "within, s", "as promised")


def settings(case, share, is_limit_told):
    """What differs from ci/public-values.yaml. is_limit_told: whether a process finds its limit of memory in a control group"""
    roomy = {"requests": {"cpu": "100m"}, "limits": {"memory": "2Gi"}}
    worker = {"requests": {"cpu": "100m"}, "limits": {"memory": str(int(LIMIT * share))}}
    config = {"threads": 1, "kernelPlan": "default"}
    told = {} if is_limit_told else {"expertMemory": f"{int(LIMIT * share - PROGRAM) >> 20}M"}
    values = {
        "model.config": {"dtype": "bfloat16", "weightCoding": "none"},  # same size in memory and on disk
        "weightsCache.type": "none", "apiKeys.existingSecret": "", "tracing.enabled": False, "pods.pdb.enabled": True,
        "gateway.pdb.minAvailable": None, "gateway.resources": roomy,
        "scheduler.standby.enabled": False, "scheduler.persistence.existingClaim": "", "scheduler.config.replicas": case.copies,
        "attention.resources": roomy, "attention.config": config | {"kvCacheMemory": "64M"},
        "expert.resources": worker, "expert.config": config | told, "expert.pools": [{"name": "default", "replicas": case.workers}],
    }
    return [f"{key}={json.dumps(value)}" for key, value in values.items()]


def try_case(name, case, node, model, scale, helm):
    """@returns (what was not as promised, the row of the table)"""
    share = (model / "model.safetensors").stat().st_size * case.copies / case.workers  # all but some megabytes are experts
    given = settings(case, share, node.groups.is_real)

    def render(*more):
        return chart.render(helm, "public", settings=[*given, *more])

    begun = time.monotonic()

    def tell(line):
        sys.stdout.write(f"{name} {time.monotonic() - begun:6.1f} s: {line}\n")  # one write: threads print, too
        sys.stdout.flush()

    node.claims["r-troupe-scheduler-state"] = pods.Pod.owned(node.work / f"state-{name}", 65532)
    node.disks["models"] = Disk(model.parent, node.work / "models.ext4") if node.groups.is_real else FuseDisk(model.parent)
    node.add([pods.secret("troupe-cluster", "secret", secrets.token_hex(32))])
    cluster = Cluster(node, case.workers, tell)
    cluster.apply(render())  # from a fast disk: the first start is not measured
    pods.wait_for("the first start", cluster.done)
    node.disks["models"].slow(READ_AROUND * share / scale.load)
    clients = open_loop.OpenLoop(lambda: cluster.endpoints("gateway"), RATE, TOKENS)
    clients.learn()
    oom_kills, problems = node.oom_kills(), []
    clients.start()
    looks = watch.Watch(cluster)
    time.sleep(QUIET)
    tell(case.says)
    try:
        case.run(cluster, scale, render)
    except AssertionError as error:
        problems.append(str(error))
    happened = time.monotonic()
    tell("that was it")
    bound = {HOSTLESS: scale.load + RECOVERY, LEADERLESS: RECOVERY, None: 0}[case.awaited]
    with contextlib.suppress(AssertionError):  # judged below
        pods.wait_for("peace", lambda: time.monotonic() - max(happened, looks.last(*looks.troubles)) > QUIET, 2 * bound + 60)
    outcomes = clients.stop()
    looks.stopping.set()
    cluster.check()
    recovered = max(0, looks.last(*looks.troubles) - happened)
    failed, right = looks.failed(outcomes), [o for o in outcomes if o.kind == open_loop.OK]
    oom_kills, restarts, statuses = node.oom_kills() - oom_kills, cluster.restarts(), cluster.stop()
    kinds = collections.Counter(o.kind for o in failed)
    for kind in kinds:
        first = next(o for o in failed if o.kind == kind)
        lasted = first.ended - first.begun
        tell(f"{kinds[kind]} × {kind}, the first one at {first.begun - begun:.1f} s, for {lasted:.1f} s: {first.detail}")
    problems += [text for wrong, text in (
        (failed, f"{len(failed)} requests failed"),
        (oom_kills, f"{oom_kills} OOM kills"),
        (restarts, f"{restarts} restarts"),
        (cluster.stalled, f"beyond the progress deadline: {sorted(cluster.stalled)}"),
        (statuses, f"ended otherwise than with 0: {statuses}"),
        (case.awaited != HOSTLESS and looks.troubles[HOSTLESS], "experts had no host"),
        (recovered > bound, f"served again after {recovered:.0f} s"),
    ) if wrong]
    tell("; ".join(problems) or "as promised")
    return problems, (
        case.says, len(outcomes), len(right), len(outcomes) - len(right) - len(failed),
        ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "0",
        f"{max((o.ended - o.begun for o in right), default=math.nan):.1f}",
        *(f"{looks.lasted(trouble):.0f}" for trouble in (HOSTLESS, LEADERLESS, DARK)), oom_kills, restarts, f"{recovered:.0f}",
        f"{bound:.0f}", "no" if problems else "yes")


def main():
    parser = argparse.ArgumentParser(description=__doc__ + "\n".join(f"  {name}: {case.says}" for name, case in CASES.items()),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("binaries", "work"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("cache")
    parser.add_argument("--load", type=float, default=60, help="seconds that a worker's share takes to read")
    parser.add_argument("--away", type=float, default=40, help="seconds that a lost machine is away")
    parser.add_argument("--without-cgroups", action="store_true", help="as where none can be made")
    parser.add_argument("scenarios", nargs="*", help="which; none: all")
    args = parser.parse_intermixed_args()
    pods.inside_own_namespaces()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    helm = tools.or_skip(tools.helm, args.cache)
    shutil.rmtree(args.work, ignore_errors=True)
    model = args.work / "models" / MODEL_FOLDER
    make_model.make(MODEL, model, seed=1)
    for path in [model.parent, model, *model.iterdir()]:  # the pods' user owns nothing here
        path.chmod(0o755 if path.is_dir() else 0o644)
    node = pods.Node(args.work / "node", binaries=args.binaries, groups=cgroups.Watched if args.without_cgroups else None)
    print(f"memory and disks are limited by: {node.groups.kind}")
    rows, broken = [], False
    for name in args.scenarios or CASES:
        try:
            problems, row = try_case(name, CASES[name], node, model, Scale(args.load, args.away), helm)
        except BaseException:
            sys.stderr.write(node.logs())
            node.kill_all()
            raise
        rows.append(row)
        if problems:
            broken = True
            kept = args.work / f"logs-{name}"
            kept.mkdir()
            for log in node.work.glob("*.log"):
                log.rename(kept / log.name)
            print(f"logs: {kept}")
    for row in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        print("| " + " | ".join(map(str, row)) + " |")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
