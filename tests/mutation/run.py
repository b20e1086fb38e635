#!/usr/bin/python3
"""Checks that the tests notice faults. Puts one fault after another into a copy of actors/, and runs the unit tests.

  run.py --check              do all faults still apply, each exactly once? (fast; a ctest does it too)
  run.py --list               names, areas, kinds
  run.py                      all faults; about 20 s each on two cores
  run.py --only AREA          those of faults/AREA.toml; may be given several times
  run.py --fault NAME         this one, whatever an earlier run said of it; may be given several times
  run.py --shard I/N          every Nth, beginning with the Ith (from 1), in a tree of its own
  run.py --report             the table of what earlier runs have found, and nothing else

Works in build/mutation/ alone: a copy of the sources, a build folder of its own, and results.jsonl, from which a run
that was stopped goes on. A result counts until a source or a test changes. The checkout is never touched.

A fault is noticed when a test fails, crashes, or takes ten times as long as without it. The programs run in an order
that begins with the area's own; the first failure ends it. A fault that does not compile is an error of the fault.
The status is 0 when at least nine of ten faults are noticed and none is in error.
"""
import argparse
import collections
import fcntl
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults as catalogue

SOURCE = pathlib.Path(__file__).resolve().parents[2]
WORK = SOURCE / "build" / "mutation"
REQUIRED_SHARE = 0.9
BUILD_SECONDS = 900
MEMORY_BYTES = 6 << 30  # limit of a test program: a fault may let a queue grow without bound

REBALANCER = "troupe_rebalancer_test"
CONTROL, SERVING, WHOLE = "troupe_cluster_test", "troupe_serving_test", "troupe_whole_cluster_test"
OVERLAPS, MODELS = "troupe_overlap_test", "troupe_model_serving_test"
WIRE, LINKS = "transport_unit_test", "transport_test"

# Programs by area, the area's own first.
PROGRAMS = {
    "scheduler": [CONTROL, OVERLAPS, WHOLE],
    "gateway": [CONTROL, OVERLAPS, WHOLE],
    "cluster": [CONTROL, OVERLAPS, WHOLE],
    "attention": [SERVING, OVERLAPS, WHOLE, MODELS],
    "expert": [SERVING, OVERLAPS, WHOLE, MODELS],
    "engine": [SERVING, MODELS, WHOLE],
    "rebalancer": [REBALANCER],
    "transport": [WIRE, LINKS],
}


def files_of(source):
    """Everything that git knows or would take, as paths below the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=source,
                            check=True, capture_output=True).stdout.decode()
    return sorted(name for name in listed.split("\0") if name and (source / name).is_file())


def digest_of(source, names):
    """Of what decides a result: sources, tests, and how they are built."""
    digest = hashlib.sha256()
    for name in names:
        if name.startswith(("actors/", "kernels/", "cmake/", "tests/unit/", "tests/protocol/", "tests/reference/")):
            digest.update(name.encode() + b"\0" + (source / name).read_bytes())
    return digest.hexdigest()[:16]


def copy_changed(source, target, names):
    """Makes target the same files; those that are equal keep their times, so that they are not built again."""
    for name in names:
        old, new = target / name, source / name
        if old.is_file() and old.read_bytes() == new.read_bytes():
            continue
        old.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(new, old)
        shutil.copymode(new, old)
    known = set(names)
    for path in [p for p in target.rglob("*") if p.is_file()]:
        if str(path.relative_to(target)) not in known:
            path.unlink()


class Tree:
    """A copy of the sources with its build folder. One process at a time uses it."""

    def __init__(self, folder, jobs):
        self.source, self.build, self.jobs = folder / "source", folder / "build", jobs
        self.baseline = {}  # seconds of a program without a fault
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = open(folder / "lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"run.py: another run is at work in {folder}")

    def configure(self):
        command = ["cmake", "-S", str(self.source), "-B", str(self.build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                   "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DBUILD_TESTING=ON", "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld",
                   "-DTROUPE_WERROR=OFF"]
        if shutil.which("ccache"):
            command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"run.py: cmake failed\n{done.stdout}")

    def make(self, program):
        """@returns what went wrong; empty when it is built"""
        env = {**os.environ, "CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": str(self.source)}
        try:
            done = subprocess.run(["ninja", "-C", str(self.build), "-j", str(self.jobs), program], check=False, env=env,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_SECONDS)
        except subprocess.TimeoutExpired:
            return f"{program} was not built within {BUILD_SECONDS} s"
        return "" if done.returncode == 0 else done.stdout[-3000:]

    def binary(self, program):
        return next(path for path in self.build.rglob(program) if path.is_file() and os.access(path, os.X_OK))

    def run(self, program, limit):
        """@returns (the test that failed or None, seconds)"""
        def bound():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        log = self.build / f"{program}.log"
        began = time.monotonic()
        with open(log, "w") as out:
            child = subprocess.Popen([str(self.binary(program)), "--gtest_fail_fast", "--gtest_color=no"],
                                     cwd=self.source, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     preexec_fn=bound, start_new_session=True)
            try:
                status = child.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, 9)  # with the processes that it has started
                    child.wait()
        seconds = time.monotonic() - began
        return (None if status == 0 else failure_in(log.read_text(errors="replace"), status)), seconds


def failure_in(output, status):
    """Which test failed, by a program's output: the first that says so, or the one that was running at the end."""
    failed = re.search(r"^\[  FAILED  \] (\S+?),? ", output + " ", re.MULTILINE)
    if failed:
        return failed[1]
    running = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    how = "does not end" if status is None else f"ends with status {status}"
    return f"{running[-1] if running else 'the program'} ({how})"


def limit_for(baseline):
    """Seconds after which a program that took `baseline` without a fault is taken for hung."""
    return max(30.0, 10 * baseline)


def measure_baseline(tree, programs):
    """Builds and runs the programs without a fault; all must pass."""
    for program in programs:
        print(f"baseline: {program}", flush=True)
        if why := tree.make(program):
            sys.exit(f"run.py: {program} cannot be built without any fault\n{why}")
        failed, tree.baseline[program] = tree.run(program, 1200)
        if failed:
            sys.exit(f"run.py: {failed} of {program} fails without any fault; see {tree.build}/{program}.log")


def examine(tree, fault):
    """@returns what is to be remembered of the fault: {noticed_by} or {error}, neither where nothing noticed it"""
    path = tree.source / fault.file
    sound, began = path.read_text(), time.monotonic()
    result = {}
    path.write_text(catalogue.applied(fault, sound))
    try:
        for program in PROGRAMS[fault.area]:
            if why := tree.make(program):
                result["error"] = why
                break
            failed, _ = tree.run(program, limit_for(tree.baseline[program]))
            if failed:
                result["noticed_by"] = f"{program}: {failed}"
                break
    finally:
        path.write_text(sound)
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def key_of(fault, state):
    """A result counts for this text of the fault in this state of the sources."""
    return hashlib.sha256("\0".join([state, *fault]).encode()).hexdigest()[:16]


def read_results(path):
    """@returns {key: result}; the last one of a key counts"""
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return {entry["key"]: entry for entry in map(json.loads, filter(None, lines))}


def report(faults, results, state, out=sys.stdout):
    """Prints the table by area, and what no test noticed. @returns whether enough of these faults were noticed"""
    counts = collections.defaultdict(collections.Counter)
    survivors, errors, missing = [], [], 0
    for fault in faults:
        result = results.get(key_of(fault, state))
        if result is None:
            outcome, missing = "not run", missing + 1
        elif "error" in result:
            outcome = "error"
            errors.append((fault, result["error"]))
        elif "noticed_by" in result:
            outcome = "noticed"
        else:
            outcome = "not noticed"
            survivors.append(fault)
        for row in (fault.area, "all"):
            counts[row][outcome] += 1
    columns = ("noticed", "not noticed", "error", "not run")
    print(f"{'area':<12}" + "".join(f"{name:>13}" for name in columns), file=out)
    for row in [*sorted(name for name in counts if name != "all"), "all"]:
        print(f"{row:<12}" + "".join(f"{counts[row][name]:>13}" for name in columns), file=out)
    for fault in survivors:
        print(f"not noticed: {fault.area}/{fault.name} ({fault.kind}): {fault.user}", file=out)
    for fault, why in errors:
        print(f"error: {fault.area}/{fault.name}: {why.strip().splitlines()[-1]}", file=out)
    noticed, judged = counts["all"]["noticed"], counts["all"]["noticed"] + counts["all"]["not noticed"]
    share = noticed / judged if judged else 0
    print(f"{noticed} of {judged} noticed, {100 * share:.0f} %", file=out)
    return share >= REQUIRED_SHARE and not errors and not missing


def parse_shard(text):
    index, count = (int(part) for part in text.split("/"))
    if not 1 <= index <= count:
        raise argparse.ArgumentTypeError("I/N with 1 <= I <= N")
    return index, count


def chosen(faults, args):
    names = {fault.name for fault in faults}
    for name in args.fault:
        if name not in names:
            sys.exit(f"run.py: there is no fault '{name}'")
    result = [fault for fault in faults
              if (not args.only or fault.area in args.only) and (not args.fault or fault.name in args.fault)]
    return result[args.shard[0] - 1::args.shard[1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="AREA", choices=sorted(PROGRAMS))
    parser.add_argument("--fault", action="append", default=[], metavar="NAME")
    parser.add_argument("--shard", type=parse_shard, default=(1, 1), metavar="I/N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    faults = catalogue.load()
    wrong = catalogue.problems(faults, SOURCE)
    if len(faults) < catalogue.LEAST:
        wrong.append(f"there are {len(faults)} faults, and {catalogue.LEAST} are the least")
    if wrong:
        print("\n".join(wrong))
        sys.exit(1)
    if args.check:
        print(f"{len(faults)} faults apply")
        return
    faults = chosen(faults, args)
    if args.list:
        for fault in faults:
            print(f"{fault.area:<10} {fault.kind:<26} {fault.name}")
        return
    names = files_of(SOURCE)
    state = digest_of(SOURCE, names)
    WORK.mkdir(parents=True, exist_ok=True)
    results_path = WORK / "results.jsonl"
    results = read_results(results_path)
    todo = [fault for fault in faults if args.fault or key_of(fault, state) not in results]
    if todo and not args.report:
        index, count = args.shard
        tree = Tree(WORK / (f"tree-{index}-of-{count}" if count > 1 else "tree"), args.jobs)
        copy_changed(SOURCE, tree.source, names)
        tree.configure()
        measure_baseline(tree, list(dict.fromkeys(p for fault in todo for p in PROGRAMS[fault.area])))
        for number, fault in enumerate(todo, 1):
            result = {"key": key_of(fault, state), "fault": f"{fault.area}/{fault.name}", **examine(tree, fault)}
            with open(results_path, "a") as out:  # one short write: shards may share the file
                out.write(json.dumps(result) + "\n")
            verdict = result.get("noticed_by") or ("ERROR" if "error" in result else "NOT NOTICED")
            print(f"[{number}/{len(todo)}] {result['fault']}: {verdict}, {result['seconds']} s", flush=True)
        results = read_results(results_path)
    sys.exit(0 if report(faults, results, state) else 1)


if __name__ == "__main__":
    main()
