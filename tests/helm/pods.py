"""Runs pods of rendered manifests on this machine, like a kubelet, without images or a container engine.

A pod gets a network namespace with an address of its own, a mount namespace with a read-only root, its volumes, and a
/dev/shm of 64 MB; its process is started with exactly the manifest's command, arguments and environment, as the user and
with the capabilities (none) that the security context says. Names of services and pods stand in /etc/hosts. Its memory is
limited as cgroups.py can. What is not modelled: limits of processors, images, init containers. kubelet.py keeps a pod
running; a test can also do so itself, with Node.start() and Pod.wait_ready().

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

import cgroups

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
        time.sleep(0.02)  # polls another process
    return answer


def secret(name, key, text):
    """@returns the manifest"""
    return {"kind": "Secret", "metadata": {"name": name}, "data": {key: base64.b64encode(text.encode()).decode()}}


class Node:
    """The machine as a node of a cluster: its network, its volumes, what names mean."""

    def __init__(self, work, image="/", binaries=None, groups=None):
        """image: root of the file system; binaries: folder that stands for /usr/local/bin in it, or what is there; groups:
        how resources are limited, or as well as it can be done here"""
        self.work, self.image, self.binaries = pathlib.Path(work), pathlib.Path(image), binaries
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.hosts = self.work / "hosts"
        self.hosts.touch()
        self.claims, self.folders, self.objects = {}, {}, {}  # claim → folder; hostPath → folder; (kind, name) → manifest
        self.disks, self.groups = {}, groups or cgroups.usable()  # claim → Disk
        self.past_oom_kills, self.closed = 0, False  # of former pods; whether no more pods are made
        self.pods, self.lock, self.next_address = {}, threading.Lock(), 2
        run("mount", "-t", "tmpfs", "none", "/run/netns") if os.path.isdir("/run/netns") else os.makedirs("/run/netns")
        run("ip", "link", "set", "lo", "up")
        # A fixed address: otherwise it has a pod's, and another one when that pod goes.
        run("ip", "link", "add", "br0", "address", "02:00:0a:e7:12:01", "type", "bridge")
        run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        self.tell_names()

    def add(self, manifests):
        self.objects.update({(m["kind"], m["metadata"]["name"]): m for m in manifests})
        self.tell_names()

    def tell_names(self):
        """What DNS would say: pods behind headless services, and one behind the others."""
        with self.lock:
            lines = ["127.0.0.1 localhost"]
            for (kind, name), service in list(self.objects.items()):
                if kind == "Service":
                    lines += self.names_of(name, service["spec"])
            with open(self.hosts, "r+", encoding="utf-8") as file:  # the same file: pods have it mounted, and read it
                file.write("\n".join(lines) + "\n")
                file.truncate()

    def names_of(self, name, service):
        """@returns lines of /etc/hosts"""
        early = service.get("publishNotReadyAddresses", False)
        chosen = [pod for pod in self.selected(service["selector"]) if pod.ready or early]
        if service.get("clusterIP") == "None":
            return [f"{pod.address} {pod.name}.{name} {name}" for pod in chosen]
        return [f"{pod.address} {name}" for pod in chosen][:1]

    def selected(self, selector):
        return [pod for pod in list(self.pods.values())
                if not pod.leaving and all(pod.labels.get(key) == value for key, value in selector.items())]

    def create(self, name, workload, machine=0):
        """@returns a pod of the workload's template, with a network and no process"""
        assert not self.closed, "the test ends"
        with self.lock:
            address = f"{NETWORK}.{self.next_address}"
            self.next_address += 1
        pod = Pod(self, name, address, workload, machine=machine)
        pod.prepare()
        self.pods[name] = pod
        self.tell_names()
        return pod

    def start(self, name, workload):
        """Starts a pod of the workload's template. @returns it, not ready yet"""
        pod = self.create(name, workload)
        pod.launch()
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
        """Ends the test: no pod is created or started after that."""
        self.closed = True
        for pod in list(self.pods.values()):
            pod.leaving = True
            if pod.process:
                pod.process.kill()
                pod.process.wait()
            pod.forget()

    def oom_kills(self):
        return self.past_oom_kills + sum(pod.group.oom_kills() for pod in list(self.pods.values()))

    def logs(self):
        return "".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.work.glob("*.log")))


class Pod:
    """One pod with one container."""

    def __init__(self, node, name, address, workload, container=0, machine=0):
        """machine: the number of the one that it is thought to run on"""
        self.node, self.name, self.address, self.machine = node, name, address, machine
        template = workload["spec"]["template"] if "template" in workload["spec"] else workload
        self.template, self.labels, self.spec = template, template["metadata"].get("labels", {}), template["spec"]
        self.container = self.spec["containers"][container]
        self.ready = self.leaving = False
        self.folder = node.work / name
        self.log = node.work / f"{name}.log"
        self.process = self.group = None
        self.link = f"v{address.rsplit('.', 1)[1]}"

    def environment(self):
        """@returns the variables of the manifest, and those that every container has"""
        fields = {"metadata.name": self.name, "status.podIP": self.address, "metadata.namespace": "default",
                  "spec.nodeName": f"machine-{self.machine}"}
        variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": self.name}
        for entry in self.container.get("env", []):
            value, source = entry.get("value"), entry.get("valueFrom", {})
            if "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            elif "resourceFieldRef" in source:
                value = self.resource(**source["resourceFieldRef"])
            elif "configMapKeyRef" in source:
                named = source["configMapKeyRef"]
                value = self.node.objects["ConfigMap", named["name"]]["data"][named["key"]]
            variables[entry["name"]] = value
        return variables

    def resource(self, resource, divisor="1", containerName=None):  # pylint: disable=invalid-name,unused-argument
        """@returns limits.memory or the like, as a variable of the environment has it"""
        section, _, name = resource.partition(".")
        unit = cgroups.quantity(divisor) or 1  # "0": none
        return str(-(-cgroups.quantity(self.container["resources"][section][name]) // unit))

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
            claim = volume["persistentVolumeClaim"]["claimName"]
            return (self.folder / "volumes" / name, True) if claim in self.node.disks else (self.node.claims[claim], False)
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
        lines += ["mount -t proc none $root/proc", "mount --rbind /sys $root/sys", "mount -t tmpfs none $root/dev",
                  *self.group.mount]
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

    def prepare(self):
        """Makes what outlives the pod's processes."""
        for folder in (self.folder / "root", self.folder / "scratch"):
            folder.mkdir(parents=True, exist_ok=True)
        self.group = self.node.groups(cgroups.name(self.name))
        memory = self.container.get("resources", {}).get("limits", {}).get("memory")
        if memory:
            self.group.limit_memory(cgroups.quantity(memory))
        self.attach_disks()
        self.prepare_network()

    def disks(self):
        """@returns (disk, folder where it is mounted on the node), of each volume that is one"""
        claims = {v["name"]: v.get("persistentVolumeClaim", {}).get("claimName") for v in self.spec.get("volumes", [])}
        disks = self.node.disks
        return [(disks[claim], self.folder / "volumes" / name) for name, claim in claims.items() if claim in disks]

    def attach_disks(self):
        for disk, folder in self.disks():
            disk.attach(folder, self.group)

    def detach_disks(self):
        for disk, folder in self.disks():
            disk.detach(folder)

    def plug(self, state):
        """The cable of the pod's machine: "up" or "down"."""
        run("ip", "link", "set", self.link, state)

    def prepare_network(self):
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", self.link, "master", "br0", "up")
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        run("ip", "-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        run("ip", "-n", self.name, "link", "set", "eth0", "up")
        wait_for("the pod's link", lambda: json.loads(subprocess.run(
            ["ip", "-n", self.name, "-j", "link", "show", "dev", "eth0"], capture_output=True, check=True).stdout
        )[0]["operstate"] == "UP")

    def launch(self):
        """Starts the container: the first one, or the next one when it has ended."""
        user, group, fs_group = self.identity()
        root, scratch = self.folder / "root", self.folder / "scratch"
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        process = ["chroot", str(root), "/usr/bin/env", "-i", *variables, "setpriv", f"--reuid={user}", f"--regid={group}",
                   f"--groups={fs_group}", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--pdeathsig=KILL",
                   *self.command()]
        script = "\n".join([f"root={root} scratch={scratch}", *self.mounts(), f"exec {shlex.join(process)}"])
        apart = shlex.join(["ip", "netns", "exec", self.name, "unshare", "--mount", "--propagation", "private", "--cgroup",
                            "sh", "-c", script])
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(["sh", "-c", f"{self.group.enter()} && exec {apart}"], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        self.group.watch(self.process)

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
        """As the kubelet removes a pod: out of its Service, preStop, SIGTERM, grace, SIGKILL. @returns the exit status"""
        self.leaving = True
        self.node.tell_names()
        grace = self.spec["terminationGracePeriodSeconds"]
        begun = time.monotonic()
        if not self.process:
            self.forget()
            return 0
        running = self.process.poll() is None
        hook = self.container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if hook and running:
            done = self.inside(hook)
            assert done.returncode == 0, (hook, done)
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(max(1, grace - (time.monotonic() - begun)))
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.forget()
        return status

    def forget(self):
        self.node.past_oom_kills += self.group.oom_kills()
        run("ip", "netns", "del", self.name)
        self.detach_disks()
        self.group.remove()
        self.node.pods.pop(self.name, None)  # last, because a successor may have the name then
