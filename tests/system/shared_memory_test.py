#!/usr/bin/env python3
"""`troupe up` with the shared memory of containers: /dev/shm read-only, of 1 MiB, or of Docker's 64 MiB.

usage: shared_memory_test.py BINARIES MODEL_DIR WORK_DIR

Needs leave to mount over /dev/shm (as root, or with user namespaces); skipped without.
"""
import pathlib
import shutil
import subprocess
import sys

from cluster import Cluster

QUESTION = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
CASES = [  # name, what is mounted, flags
    ("read-only", "-o ro", []),
    ("1-MiB", "-o size=1m", []),
    ("1-MiB-wanted", "-o size=1m", ["--shared-memory"]),
    ("docker", "-o size=64m", ["--shared-memory"]),
]


def main():
    binaries, model, work = (pathlib.Path(a).absolute() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    unshare = way_to_mount()
    if unshare is None:
        print("skipped: mounts over /dev/shm are not permitted here")
        sys.exit(77)
    with Cluster(binaries, "up", model, "--served-model-name", "m", run_dir=work / "run", log=work / "host.log") as up:
        expected = up.post("/v1/completions", QUESTION)["choices"][0]["text"]
    for name, mount, flags in CASES:
        wrapped = with_shared_memory(binaries, work / name, unshare, mount)
        log = work / f"{name}.log"
        with Cluster(wrapped, "up", model, "--served-model-name", "m", *flags, run_dir=work / f"run-{name}", log=log) as up:
            assert up.post("/v1/completions", QUESTION)["choices"][0]["text"] == expected, name
        refusals = [line for line in log.read_text().splitlines() if "no-shared-memory" in line]
        # One line from each process that needed some.
        assert len({line.split()[2] for line in refusals}) == len(refusals), refusals
        assert bool(refusals) == bool(flags), refusals
        assert all("give /dev/shm more, in a container with --shm-size" in line for line in refusals), refusals
    print(f"shared memory: the same answer with {len(CASES)} kinds of /dev/shm")


def way_to_mount():
    """@returns the command under which a mount is the process's own; None: there is no leave"""
    if shutil.which("unshare") is None:
        return None
    return next((words for words in (["unshare", "-m"], ["unshare", "-rm"])
                 if subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/dev/shm"], capture_output=True).returncode == 0),
                None)


def with_shared_memory(binaries, folder, unshare, mount):
    """@returns a folder with a `troupe` that has such a /dev/shm"""
    folder.mkdir()
    script = folder / "troupe"
    script.write_text(f"#!/bin/sh\nexec {' '.join(unshare)} sh -c 'mount -t tmpfs {mount} none /dev/shm && exec \"$@\"' sh "
                      f"{binaries}/troupe \"$@\"\n")
    script.chmod(0o755)
    return folder


if __name__ == "__main__":
    main()
