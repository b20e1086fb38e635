"""Runs pods of rendered manifests on this machine, as a kubelet would, without images or containers' engine.

A pod gets a network namespace with an address of its own, a mount namespace with a read-only root, its volumes, and a
/dev/shm of 64 MB; its process is started with exactly the manifest's command, arguments and environment, as the user and
with the capabilities (none) that the security context says. Names of services and pods stand in /etc/hosts. What is
modelled of probes: readiness. What is not: limits of resources, images, init containers.

Call inside_own_namespaces() first: what is made here is gone with the process.
"""
import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

NETWORK = "10.231.18"  # of the pods; .1 is the node
READY_DEADLINE = 120  # seconds
DEVICES = ("null", "zero", "random", "urandom")


def inside_own_namespaces():
    """Runs this program again where it may make networks and mounts; skips where that cannot be."""
    if os.environ.get("TROUPE_TEST_NODE") == "1":
        return
    probe = subprocess.run(["unshare", "--net", "--mount", "sh", "-c", "mount -t tmpfs none /mnt && ip link set lo up"],
                           capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        print(f"skipped: no namespaces can be made here: {probe.stderr.strip()}")
        sys.exit(77)
    os.environ["TROUPE_TEST_NODE"] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def run(*argv):
    subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.DEVNULL)


def wait_for(what, question, deadline=READY_DEADLINE):
    """@returns the first true answer"""
    end = time.monotonic() + deadline
    while not (answer := question()):
        assert time.monotonic() < end, f"{what}: not within {deadline} s"
        time.sleep(0.02)  # between two questions to another process
    return answer


class Node:
    """The machine as a node of a cluster: its network, its volumes, what names mean."""

    def __init__(self, work, image="/", binaries=None):
        """image: root of the file system; binaries: folder that stands for /usr/local/bin in it, or what is there"""
        self.work, self.image, self.binaries = pathlib.Path(work), pathlib.Path(image), binaries
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.hosts = self.work / "hosts"
        self.claims, self.folders, self.objects = {}, {}, {}  # claim → folder; hostPath → folder; (kind, name) → manifest
        self.pods, self.lock, self.next_address = {}, threading.Lock(), 2
        run("mount", "-t", "tmpfs", "none", "/run/netns") if os.path.isdir("/run/netns") else os.makedirs("/run/netns")
        run("ip", "link", "set", "lo", "up")
        # With an address of its own: otherwise it has a pod's, and another one when that pod goes.
        run("ip", "link", "add", "br0", "address", "02:00:0a:e7:12:01", "type", "bridge")
        run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        self.tell_names()

    def add(self, manifests):
        self.objects.update({(m["kind"], m["metadata"]["name"]): m for m in manifests})
        self.tell_names()

    def tell_names(self):
        """What DNS would say: pods behind headless services, and a ready one behind the others."""
        lines = ["127.0.0.1 localhost"]
        for (kind, name), service in self.objects.items():
            if kind != "Service":
                continue
            chosen = self.selected(service["spec"]["selector"])
            if service["spec"].get("clusterIP") == "None":
                lines += [f"{pod.address} {pod.name}.{name} {name}" for pod in chosen]
            else:
                lines += [f"{pod.address} {name}" for pod in chosen if pod.ready][:1]
        self.hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")  # the same file: pods have it mounted

    def selected(self, selector):
        return [pod for pod in list(self.pods.values())
                if not pod.leaving and all(pod.labels.get(key) == value for key, value in selector.items())]

    def start(self, name, workload):
        """Starts a pod of the workload's template. @returns it, not ready yet"""
        with self.lock:
            address = f"{NETWORK}.{self.next_address}"
            self.next_address += 1
        pod = Pod(self, name, address, workload)
        self.pods[name] = pod
        self.tell_names()
        pod.start()
        return pod

    def stop_all(self):
        """Ends all pods at once. @returns the exit statuses that are not 0, by name"""
        pods = list(self.pods.values())
        for pod in pods:
            pod.process.send_signal(signal.SIGTERM)
        statuses = {pod.name: pod.process.wait(60) for pod in pods}
        for pod in pods:
            pod.forget()
        return {name: status for name, status in statuses.items() if status != 0}

    def kill_all(self):
        for pod in self.pods.values():
            if pod.process:
                pod.process.kill()

    def logs(self):
        return "".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.work.glob("*.log")))


class Pod:
    """One pod with one container."""

    def __init__(self, node, name, address, workload, container=0):
        self.node, self.name, self.address = node, name, address
        template = workload["spec"]["template"] if "template" in workload["spec"] else workload
        self.labels = template["metadata"].get("labels", {})
        self.spec = template["spec"]
        self.container = self.spec["containers"][container]
        self.ready = self.leaving = False
        self.folder = node.work / name
        self.log = node.work / f"{name}.log"
        self.process = None

    def environment(self):
        """@returns the variables of the manifest, and those that every container has"""
        fields = {"metadata.name": self.name, "status.podIP": self.address, "metadata.namespace": "default"}
        variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": self.name}
        for entry in self.container.get("env", []):
            value = entry.get("value")
            if value is None:
                value = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            variables[entry["name"]] = value
        return variables

    def command(self):
        """@returns command and arguments, with $(NAME) replaced as Kubernetes does"""
        variables = self.environment()
        words = [*self.container["command"], *self.container.get("args", [])]
        return [re.sub(r"\$\((\w+)\)", lambda m: variables[m[1]], word) for word in words]

    def identity(self):
        context, own = self.spec["securityContext"], self.container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False and own["capabilities"]["drop"] == ["ALL"], own
        assert own["readOnlyRootFilesystem"] is True and context["runAsNonRoot"] is True, (own, context)
        return context["runAsUser"], context["runAsGroup"], context["fsGroup"]

    def volume(self, name):
        """@returns (folder that holds the volume, whether it must not be written)"""
        _, _, group = self.identity()
        volume = next(v for v in self.spec["volumes"] if v["name"] == name)
        if "persistentVolumeClaim" in volume:
            return self.node.claims[volume["persistentVolumeClaim"]["claimName"]], False
        if "hostPath" in volume:
            return self.node.folders[volume["hostPath"]["path"]], False
        folder = self.owned(self.folder / "volumes" / name, group)
        if "secret" in volume:
            data = self.node.objects["Secret", volume["secret"]["secretName"]]["data"]
            files = {item["path"]: base64.b64decode(data[item["key"]]) for item in volume["secret"]["items"]}
            mode = volume["secret"]["defaultMode"]
        elif "configMap" in volume:
            data = self.node.objects["ConfigMap", volume["configMap"]["name"]]["data"]
            files, mode = {key: text.encode() for key, text in data.items()}, 0o644
        else:
            assert "emptyDir" in volume, volume
            return folder, False
        for file, content in files.items():
            (folder / file).write_bytes(content)
            os.chown(folder / file, 0, group)
            (folder / file).chmod(mode)
        return folder, True

    @staticmethod
    def owned(folder, group):
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, 0, group)
        folder.chmod(0o2775)
        return folder

    def mounts(self):
        """@returns shell lines that make the root in $root, the last ones read-only"""
        lines = ["set -e", "mount -t tmpfs none $scratch", "mkdir $scratch/up $scratch/work",
                 f"mount -t overlay -o lowerdir={self.node.image},upperdir=$scratch/up,workdir=$scratch/work none $root",
                 "mkdir -p $root/proc $root/sys $root/dev $root/etc", "touch $root/etc/hosts $root/etc/resolv.conf"]
        made = {mount["mountPath"] for mount in self.container.get("volumeMounts", [])}
        lines += [f"mkdir -p $root{shlex.quote(path)}" for path in sorted(made)]
        if self.node.binaries:
            lines.append(f"mkdir -p $root/usr/local/bin && mount --bind {self.node.binaries} $root/usr/local/bin")
        lines += ["mount -t proc none $root/proc", "mount --rbind /sys $root/sys", "mount -t tmpfs none $root/dev"]
        lines += [f"touch $root/dev/{name} && mount --bind /dev/{name} $root/dev/{name}" for name in DEVICES]
        lines += ["mkdir $root/dev/shm && mount -t tmpfs -o size=64m none $root/dev/shm",
                  f"mount --bind {self.node.hosts} $root/etc/hosts",
                  "echo 'nameserver 127.0.0.1\noptions timeout:1 attempts:1' > $root/etc/resolv.conf",
                  "mount -o remount,ro $root"]
        for mount in self.container.get("volumeMounts", []):
            folder, read_only = self.volume(mount["name"])
            target = f"$root{shlex.quote(mount['mountPath'])}"
            lines.append(f"mount --bind {shlex.quote(str(folder / mount.get('subPath', '')))} {target}")
            if read_only or mount.get("readOnly"):
                lines.append(f"mount -o remount,ro,bind {target}")
        return lines

    def prepare_network(self):
        short = f"v{self.address.rsplit('.', 1)[1]}"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", short, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", short, "master", "br0", "up")
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        run("ip", "-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        run("ip", "-n", self.name, "link", "set", "eth0", "up")
        wait_for("the pod's link", lambda: json.loads(subprocess.run(
            ["ip", "-n", self.name, "-j", "link", "show", "dev", "eth0"], capture_output=True, check=True).stdout
        )[0]["operstate"] == "UP")

    def start(self):
        user, group, fs_group = self.identity()
        root, scratch = self.folder / "root", self.folder / "scratch"
        for folder in (root, scratch):
            folder.mkdir(parents=True, exist_ok=True)
        self.prepare_network()
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        process = ["chroot", str(root), "/usr/bin/env", "-i", *variables, "setpriv", f"--reuid={user}", f"--regid={group}",
                   f"--groups={fs_group}", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", *self.command()]
        script = "\n".join([f"root={root} scratch={scratch}", *self.mounts(), f"exec {shlex.join(process)}"])
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.name, "unshare", "--mount", "--propagation", "private", "sh", "-c", script],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def port_of(self, probe):
        port = probe["httpGet"]["port"]
        return next(p["containerPort"] for p in self.container["ports"] if p["name"] == port)

    def answers(self, kind):
        """Whether the probe of this kind (readinessProbe, ...) succeeds now."""
        probe = self.container[kind]
        connection = http.client.HTTPConnection(self.address, self.port_of(probe), timeout=probe["timeoutSeconds"])
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", probe["httpGet"]["path"])
            return 200 <= connection.getresponse().status < 400
        return False

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}"
            return self.answers("readinessProbe")

        wait_for(f"{self.name} is ready", ready)
        assert self.answers("livenessProbe") and self.answers("startupProbe"), self.name
        self.ready = True
        self.node.tell_names()

    def inside(self, command):
        """Runs a command as `kubectl exec` would. @returns the finished process"""
        user, group, _ = self.identity()
        inside = f"/proc/{self.process.pid}/root"
        return subprocess.run(["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "chroot", inside, "setpriv",
                               f"--reuid={user}", f"--regid={group}", "--clear-groups", "--bounding-set=-all",
                               "--no-new-privs", *command], capture_output=True, text=True, timeout=120, check=False)

    def terminate(self):
        """As the kubelet removes a pod: out of its Service, preStop, SIGTERM, grace. @returns the exit status"""
        self.leaving = True
        self.node.tell_names()
        grace = self.spec["terminationGracePeriodSeconds"]
        begun = time.monotonic()
        hook = self.container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if hook:
            done = self.inside(hook)
            assert done.returncode == 0, (hook, done)
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(max(1, grace - (time.monotonic() - begun)))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end within its grace of {grace} s") from None
        self.forget()
        return status

    def forget(self):
        del self.node.pods[self.name]
        run("ip", "netns", "del", self.name)
