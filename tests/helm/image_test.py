#!/usr/bin/python3
"""The image without an engine: the steps of deploy/Dockerfile in a Debian root, and each role started from it.

usage: image_test.py BINARIES MODEL_DIR WORK_DIR CACHE

The root stands for debian:bookworm-slim: debootstrap's smallest variant without documents, manual pages and
translations, as that image is made. Of the Dockerfile the last stage is carried out line by line; what an earlier stage
built is BINARIES, stripped. Prints sizes and times; fails above 200 MB. By hand (tests/run.sh image): it fetches some 80 MB
of Debian packages.
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

import chart
import cluster_test
import pods
import tools

ROOT = chart.FOLDER.parents[1]
LIMIT = 200 * 1000 * 1000  # bytes
EXCLUDED = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/groff",
            "usr/share/linda", "var/cache/apt", "var/lib/apt/lists")


def size(root):
    """@returns bytes of the files below root, each counted once"""
    seen, total = set(), 0
    for folder, _, files in os.walk(root):
        for file in files:
            info = os.lstat(os.path.join(folder, file))
            if (info.st_dev, info.st_ino) not in seen:
                seen.add((info.st_dev, info.st_ino))
                total += info.st_size
    return total


def base(root, cache):
    """Fills `root` with what debian:bookworm-slim holds."""
    archive = cache / "bookworm.tar"
    if not archive.exists():
        if shutil.which("debootstrap") is None:
            print("skipped: debootstrap is missing (deploy/install-deps.sh test)")
            sys.exit(77)
        made = cache / "bookworm.root"
        shutil.rmtree(made, ignore_errors=True)
        done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", made], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"skipped: debootstrap: {done.stdout[-300:]}")
            sys.exit(1 if os.environ.get("CI") == "true" else 77)
        for folder in EXCLUDED:
            shutil.rmtree(made / folder, ignore_errors=True)
        pods.run("tar", "-C", made, "-cf", archive, ".")
        shutil.rmtree(made)
    root.mkdir(parents=True)
    pods.run("tar", "-C", root, "-xf", archive)


def instructions(text):
    """@returns [(instruction, rest)] of the Dockerfile's last stage"""
    lines, pending = [], ""
    for line in text.splitlines():
        if line.strip().startswith("#") or not (pending or line.strip()):
            continue
        pending += line.rstrip("\\")
        if not line.endswith("\\"):
            lines.append(pending.strip())
            pending = ""
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    assert lines[last] == "FROM ${DEBIAN}" and "ARG DEBIAN=debian:bookworm-slim" in lines, lines
    return [tuple(line.split(None, 1)) for line in lines[last + 1:]]


def build(root, binaries):
    """Carries out the last stage. @returns what the image would say of user, health check and command"""
    said = {}
    for instruction, rest in instructions((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")):
        if instruction == "COPY":
            *sources, target = rest.split()
            from_stage = sources[0].startswith("--from=")
            copy([binaries] if from_stage else [ROOT / source for source in sources], root / target.lstrip("/"), from_stage)
        elif instruction == "RUN":
            in_root(root, rest)
        else:
            assert instruction in ("ARG", "LABEL", "USER", "HEALTHCHECK", "CMD"), instruction
            said[instruction] = rest
    return said


def copy(sources, target, strip):
    folder = target if str(target).endswith("/") or target.is_dir() or len(sources) > 1 or strip else target.parent
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        for file in sorted(source.glob("troupe*")) if source.is_dir() else [source]:
            copied = folder / file.name
            shutil.copy(file, copied)
            if strip:
                pods.run("strip", copied)


def in_root(root, command):
    """A RUN: in the root, with the network that apt needs."""
    script = f"""set -e
mount -t proc none {root}/proc
mount --rbind /dev {root}/dev
touch {root}/etc/resolv.conf && mount --bind /etc/resolv.conf {root}/etc/resolv.conf
exec chroot {root} /bin/sh -c {shlex.quote(command)}"""
    apt = pathlib.Path("/etc/apt/apt.conf.d")
    kept = [file for file in apt.glob("*proxy*")]
    for file in kept:  # this machine's access to the mirror
        shutil.copy(file, root / "etc/apt/apt.conf.d" / file.name)
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], capture_output=True, text=True,
                          check=False)
    for file in kept:
        (root / "etc/apt/apt.conf.d" / file.name).unlink(missing_ok=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def timed_ready(node, manifests):
    """Starts every role. @returns {role: seconds until it was ready, alone}"""
    times = {}
    order = ("scheduler", "expert", "attention", "gateway")
    for role in order:
        for workload in chart.workloads(manifests):
            pod_labels = workload["spec"]["template"]["metadata"]["labels"]
            if pod_labels["app.kubernetes.io/component"] == role:
                begun = time.monotonic()
                node.start(cluster_test.pod_name(workload, 0), workload).wait_ready()
                times[role] = round(time.monotonic() - begun, 2)
    return times


def main():
    binaries, model, work, cache = (pathlib.Path(a).resolve() for a in sys.argv[1:5])
    helm = tools.or_skip(tools.helm, cache)
    image = work / "image"
    if os.environ.get("TROUPE_TEST_NODE") != "1":  # where the network is still available
        shutil.rmtree(work, ignore_errors=True)
        cache.mkdir(parents=True, exist_ok=True)
        base(image, cache)
        before = size(image)
        said = build(image, binaries)
        (work / "said.json").write_text(json.dumps([before, said]), encoding="utf-8")
    pods.inside_own_namespaces()
    before, said = json.loads((work / "said.json").read_text(encoding="utf-8"))
    total = size(image)
    programs = sum(file.stat().st_size for file in (image / "usr/local/bin").iterdir())
    assert said["USER"] == "65532:65532" and said["CMD"] == '["troupe", "--help"]', said
    assert "org.opencontainers.image.revision=" in said["LABEL"], said
    assert said["HEALTHCHECK"].endswith('CMD ["troupe-health"]'), said
    shutil.copytree(model, work / "models" / cluster_test.MODEL_FOLDER)
    for path in [*work.parents[:1], work, *(work / "models").rglob("*"), work / "models"]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    manifests = chart.render(helm, "one-node", settings=["gateway.service.port=8000"])
    node = pods.Node(work / "node", image=image)
    node.folders["/srv/model"] = work / "models" / cluster_test.MODEL_FOLDER
    node.add(manifests)
    try:
        times = timed_ready(node, manifests)
        cluster_test.helm_test(node, manifests)
        for pod in node.pods.values():
            cluster_test.kept_out(pod)
        health(node)
        setuid = next(iter(node.pods.values())).inside(["find", "/", "-xdev", "-perm", "/6000", "-type", "f"]).stdout
        assert setuid == "", setuid
        assert node.stop_all() == {}
    except BaseException:
        sys.stderr.write(node.logs())
        node.kill_all()
        raise
    print(f"image: {total / 1e6:.1f} MB, of which Debian {before / 1e6:.1f} MB, programs {programs / 1e6:.1f} MB; ready after "
          + ", ".join(f"{role} {seconds:.2f} s" for role, seconds in times.items()))
    assert total < LIMIT, f"{total} bytes"


def health(node):
    """The health check of the Dockerfile, in each pod."""
    for pod in node.pods.values():
        port = "TROUPE_PORT=8000" if "gateway" in pod.name else "TROUPE_METRICS_PORT=7080"
        done = pod.inside(["env", port, "troupe-health"])
        assert done.returncode == 0, done
        assert pod.inside(["env", "TROUPE_METRICS_PORT=7081", "troupe-health"]).returncode == 1


if __name__ == "__main__":
    main()
