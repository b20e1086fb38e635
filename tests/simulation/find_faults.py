#!/usr/bin/python3
"""Do simulated schedules find faults? Puts one planted fault after another into a copy of the sources, and simulates.

  find_faults.py --check          do all patches still apply? (fast; a ctest does it too)
  find_faults.py                  all faults; some minutes each for what has to be built again
  find_faults.py --fault NAME     this one; may be given several times

Each tests/simulation/faults/NAME.patch is a fault: a sentence that says what its users would see, then a diff. The copy
and its build folder are in build/simulation_faults/; the checkout is never touched. First the simulation must pass
without a fault; with one, `troupe-simulate` must fail within SCHEDULES schedules. The status is 0 when each does.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mutation"))
import run as mutation

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FAULTS = pathlib.Path(__file__).resolve().parent / "faults"
WORK = SOURCE / "build" / "simulation_faults"
SCHEDULES = 300
RUN_SECONDS = 900


class Tree(mutation.Tree):
    """Built as a release is, so that the compiler's cache has most of it; the simulation's speed counts, too."""

    def configure(self):
        done = subprocess.run(["cmake", "--preset", "release", "-B", str(self.build), "-G", "Ninja"], cwd=self.source,
                              check=False, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"find_faults.py: cmake failed\n{done.stdout}{done.stderr}")


def patch(folder, file, *options):
    """@returns what git says against it; empty when it is done"""
    # Hides surrounding repositories from git: inside one it would leave out files outside of the folder.
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)} if folder != SOURCE else None
    done = subprocess.run(["git", "apply", *options, str(file)], cwd=folder, check=False, env=env,
                          capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


def simulate(tree):
    """@returns (status, what it says)"""
    command = [str(tree.binary("troupe-simulate")), "--schedules", str(SCHEDULES), "--jobs", str(tree.jobs)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=RUN_SECONDS)
    return done.returncode, done.stdout + done.stderr


def check(patches):
    """@returns how many do not apply"""
    bad = 0
    for file in patches:
        if problem := patch(SOURCE, file, "--check"):
            print(f"{file.name} does not apply: {problem.strip()}")
            bad += 1
    print(f"{len(patches)} faults, {bad} of them do not apply")
    return bad


def find(patches, jobs):
    """@returns how many are not found"""
    tree = Tree(WORK, jobs)
    names = mutation.files_of(SOURCE)
    mutation.copy_changed(SOURCE, tree.source, names)
    tree.configure()
    if problem := tree.make("troupe-simulate"):
        sys.exit(f"the sources cannot be built:\n{problem}")
    status, said = simulate(tree)
    if status != 0:
        sys.exit(f"the simulation fails without a fault:\n{said}")
    missed = 0
    for file in patches:
        if problem := patch(tree.source, file):
            sys.exit(f"{file.name} does not apply: {problem}")
        problem = tree.make("troupe-simulate")
        status, said = (None, problem) if problem else simulate(tree)
        mutation.copy_changed(SOURCE, tree.source, names)
        seeds = [int(seed) for seed in re.findall(r"^seed (\d+):", said, re.MULTILINE)]
        if status == 1 and seeds:
            print(f"{file.stem}: found by seed {min(seeds)}: {said.splitlines()[0].split(': ', 1)[1]}", flush=True)
        else:
            print(f"{file.stem}: NOT FOUND\n{said[-2000:]}", flush=True)
            missed += 1
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="compilers, and simulations, at the same time")
    options = parser.parse_args()
    patches = sorted(FAULTS.glob("*.patch"))
    if options.fault:
        unknown = set(options.fault) - {file.stem for file in patches}
        if unknown:
            sys.exit(f"find_faults.py: there is no fault {', '.join(sorted(unknown))} in {FAULTS}")
        patches = [file for file in patches if file.stem in options.fault]
    sys.exit(1 if (check(patches) if options.check else find(patches, options.jobs)) else 0)


if __name__ == "__main__":
    main()
