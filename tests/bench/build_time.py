#!/usr/bin/env python3
"""Measures a build in processor seconds: a complete one, and one after touching a source.

usage: tests/bench/build_time.py [--repository DIR] [--commit REV] [--work DIR] [--only serve|programs|touched]

Clones REV (default: HEAD) into DIR and builds it there without ccache and without tests:
- serve: what deploy/quickstart.sh needs before it answers (troupe, troupe-template);
- programs: the rest of the programs;
- touched: then, for one source or header of each kind, what it takes to build the programs again.
Processor seconds are those of all compilers and linkers; they grow when neighbours use the caches and the memory, so compare
two commits on one machine, one after the other. The packages of deploy/install-deps.sh build are expected.
"""
import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

TOUCHED = {
    "a message of the expert role": "actors/protocol/expert_messages.hpp",
    "a kernel": "kernels/attention.cpp",
    "an endpoint": "services/gateway/http/endpoints/version.cpp",
    "an actor": "actors/expert/expert_host.cpp",
}


def run(command, where):
    """Runs the command; -> processor seconds, seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=where, env={**os.environ, "CCACHE_DISABLE": "1"}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"build_time.py: {' '.join(command)} failed\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - began


def tell(what, figures):
    print(f"{what:40} {figures[0]:8.0f} s of processor time {figures[1]:8.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", default=str(pathlib.Path(__file__).resolve().parents[2]))
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--work", help="where to clone to (default: a new folder, removed afterwards)")
    parser.add_argument("--only", choices=["serve", "programs", "touched"], action="append")
    args = parser.parse_args()
    wanted = args.only or ["serve", "programs", "touched"]
    folder = pathlib.Path(args.work or tempfile.mkdtemp(prefix="troupe-build-"))
    clone = folder / "clone"
    try:
        run(["git", "clone", "-q", args.repository, str(clone)], "/")
        run(["git", "checkout", "-q", args.commit], clone)
        run(["cmake", "--preset", "release", "-DBUILD_TESTING=OFF"], clone)
        build = ["cmake", "--build", "--preset", "release"]
        if "serve" in wanted:
            tell("serve", run([*build, "--target", "troupe", "troupe-template"], clone))
        if "programs" in wanted or "touched" in wanted:
            tell("programs" + (", the rest" if "serve" in wanted else ""), run(build, clone))
        if "touched" in wanted:
            for what, name in TOUCHED.items():
                os.utime(clone / name)
                tell(f"after touching {what}", run(build, clone))
    finally:
        if not args.work:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
