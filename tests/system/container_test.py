#!/usr/bin/env python3
"""The programs as containers run them: /dev/shm read-only, of 1 MiB, or of Docker's 64 MiB; the variables that Kubernetes
sets for a Service named `troupe`; pages of browsers; and what every program says to --version and to a mistake.

usage: container_test.py BINARIES MODEL_DIR WORK_DIR
"""
import pathlib
import shutil
import subprocess
import sys

from cluster import Cluster

QUESTION = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
PROGRAMS = ["troupe", "troupe-attention", "troupe-expert", "troupe-gateway", "troupe-load", "troupe-scheduler"]
SERVICE = {"TROUPE_PORT": "tcp://10.0.0.1:8000", "TROUPE_SERVICE_HOST": "10.0.0.1", "TROUPE_SERVICE_PORT": "8000",
           "TROUPE_PORT_8000_TCP": "tcp://10.0.0.1:8000", "TROUPE_PORT_8000_TCP_PROTO": "tcp",
           "TROUPE_PORT_8000_TCP_PORT": "8000", "TROUPE_PORT_8000_TCP_ADDR": "10.0.0.1"}


def main():
    binaries, model, work = (pathlib.Path(a).absolute() for a in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command_lines(binaries)
    expected = as_a_service(binaries, model, work)
    unshare = next((words for words in (["unshare", "-m"], ["unshare", "-rm"])
                    if subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/dev/shm"], capture_output=True).returncode == 0),
                   None)
    if unshare is None:
        print("skipped: mounts over /dev/shm are not permitted here")
        sys.exit(77)
    for name, mount, flags in (("read-only", "-o ro", []), ("1-MiB", "-o size=1m", []),
                               ("1-MiB-wanted", "-o size=1m", ["--shared-memory"]),
                               ("docker", "-o size=64m", ["--shared-memory"])):
        wrapped = with_shared_memory(binaries, work / name, unshare, mount)
        log = work / f"{name}.log"
        with Cluster(wrapped, "up", model, "--served-model-name", "m", *flags, run_dir=work / f"run-{name}", log=log) as up:
            assert up.post("/v1/completions", QUESTION)["choices"][0]["text"] == expected, name
        refusals = [line for line in log.read_text().splitlines() if "no-shared-memory" in line]
        # One line from each process that wanted some.
        assert len({line.split()[1] for line in refusals}) == len(refusals), refusals
        assert bool(refusals) == bool(flags), refusals
        assert all("give /dev/shm more, in a container with --shm-size" in line for line in refusals), refusals
    print("containers: 6 programs' versions and mistakes, variables of a Service, 4 kinds of /dev/shm")


def command_lines(binaries):
    for program in PROGRAMS:
        told = subprocess.run([binaries / program, "--version"], capture_output=True, text=True, check=True).stdout
        assert told.startswith(program + " ") and told.count(".") == 2, told
    for program, names in (("troupe", "serve, up, status, quantize, tokenize"), ("troupe-load", "run, eval")):
        refused = subprocess.run([binaries / program, "bogus"], capture_output=True, text=True)
        assert refused.returncode == 2, refused
        assert refused.stderr == (f"{program}: unknown command 'bogus': a command comes first, one of {names}; "
                                  f"see '{program} --help'\n"), refused.stderr


def as_a_service(binaries, model, work):
    """@returns what the model answers"""
    log = work / "service.log"
    variables = {**SERVICE, "TROUPE_MAX_NUM_SEQUENCES": "4", "TROUPE_ALLOWED_ORIGINS": "https://a.example"}
    with Cluster(binaries, "up", model, "--served-model-name", "m", "--max-model-len", "1000000", run_dir=work / "run",
                 log=log, env=variables) as up:
        text = up.post("/v1/completions", QUESTION)["choices"][0]["text"]
        status = subprocess.run([binaries / "troupe", "status", "--url", f"http://127.0.0.1:{up.port}"],
                                capture_output=True, text=True, check=True).stdout
    lines = log.read_text().splitlines()
    for once in ("ignored, since Kubernetes sets them for a Service: ", "no flag is set by TROUPE_MAX_NUM_SEQUENCES; misspelt?",
                 "flag-clamped: --max-model-len 1000000: "):
        assert sum(once in line for line in lines) == 1, (once, lines)
    ignored = next(line for line in lines if "Kubernetes" in line)
    assert all(name in ignored for name in SERVICE), ignored
    assert status.startswith("ready; scheduler: term "), status
    for worker in ("attention-0", "expert-0", "expert-1"):
        assert any(line.startswith(worker + " ") for line in status.splitlines()), status
    assert ", all hosted\n" in status, status
    return text


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
