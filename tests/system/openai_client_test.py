#!/usr/bin/env python3
"""A stock OpenAI client (npm `openai`) against a cluster of separate processes.

usage: openai_client_test.py BINARIES MODEL_DIR WORK_DIR

Exits with 77 (skipped) where the client cannot be fetched; fails under CI then.
"""
import pathlib
import subprocess
import sys

from cluster import Cluster


def main():
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    run_dir = work / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    script = pathlib.Path(__file__).resolve().parents[1] / "protocol" / "openai" / "run.sh"
    with Cluster(binaries, "up", model, "--expert-workers", "2", run_dir=run_dir, log=work / "up.log") as cluster:
        client = subprocess.run(["bash", str(script), str(work / "client"), f"http://127.0.0.1:{cluster.port}"],
                                check=False, timeout=240)
        if client.returncode == 77:
            sys.exit(77)
        client.check_returncode()


if __name__ == "__main__":
    main()
