"""Limits of a container: memory, and bytes a second of a disk. Uses a control group of the kernel, of version 1 or 2; where
none can be made, a substitute that means() names."""
import contextlib
import os
import pathlib
import re
import signal
import threading
import time

ROOT = pathlib.Path("/sys/fs/cgroup")
SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
LOOK = 0.02  # seconds between two looks at a process without a control group


def quantity(text):
    """@returns the number that a quantity of Kubernetes means, such as 383Mi"""
    number, suffix = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text)).groups()
    return int(float(number) * SUFFIXES[suffix])


class Group:
    """What all kinds have in common: the name, and the folders that a process enters."""
    kind, is_real = "", True
    mount = ()  # shell lines with which a container sees its own group

    def __init__(self, name):
        self.folders = [ROOT / controller / name for controller in self.controllers]
        for folder in self.folders:
            folder.mkdir(exist_ok=True)

    def enter(self):
        """@returns a line of shell by which a process and its children belong to it"""
        return " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in self.folders) or ":"

    def watch(self, process):
        """Tells that this process is the container's now."""

    def remove(self):
        for folder in self.folders:
            with contextlib.suppress(OSError):  # the process is ending
                folder.rmdir()


class Version1(Group):
    kind, controllers = "memory and blkio of cgroup v1", ("memory", "blkio")
    mount = ("mount -t tmpfs none $root/sys/fs/cgroup", "mkdir $root/sys/fs/cgroup/memory",
             "mount -t cgroup -o memory none $root/sys/fs/cgroup/memory")

    def limit_memory(self, number):
        (self.folders[0] / "memory.limit_in_bytes").write_text(str(number), encoding="ascii")

    def limit_reads(self, device, rate):
        (self.folders[1] / "blkio.throttle.read_bps_device").write_text(f"{device} {rate}", encoding="ascii")

    def oom_kills(self):
        return int(re.search(r"oom_kill (\d+)", (self.folders[0] / "memory.oom_control").read_text(encoding="ascii"))[1])


class Version2(Group):
    kind, controllers = "memory.max and io.max of cgroup v2", ("",)
    mount = ("mount -t cgroup2 none $root/sys/fs/cgroup",)

    def __init__(self, name):
        (ROOT / "cgroup.subtree_control").write_text("+memory +io", encoding="ascii")
        super().__init__(name)
        with contextlib.suppress(OSError):  # a kernel that does not count it
            (self.folders[0] / "memory.swap.max").write_text("0", encoding="ascii")

    def limit_memory(self, number):
        (self.folders[0] / "memory.max").write_text(str(number), encoding="ascii")

    def limit_reads(self, device, rate):
        (self.folders[0] / "io.max").write_text(f"{device} rbps={rate or 'max'}", encoding="ascii")

    def oom_kills(self):
        return int(re.search(r"oom_kill (\d+)", (self.folders[0] / "memory.events").read_text(encoding="ascii"))[1])


class Watched(Group):
    """No control group: a thread looks at what the process has of its own, and kills it as the kernel would."""
    kind = "NO CONTROL GROUPS: a watcher of RssAnon and RssShmem kills, a file system of the test is slow"
    controllers, is_real = (), False

    def __init__(self, name):
        super().__init__(name)
        self.limit, self.kills = None, 0

    def limit_memory(self, number):
        self.limit = number

    def limit_reads(self, device, rate):
        pass

    def watch(self, process):
        threading.Thread(target=self.look, args=(process,), daemon=True).start()

    def look(self, process):
        while process.poll() is None:
            with contextlib.suppress(OSError):  # it has ended
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
                own = sum(int(kilobytes) for kilobytes in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+)", status)) * 1024
                if self.limit and own > self.limit:
                    self.kills += 1
                    process.send_signal(signal.SIGKILL)
            time.sleep(LOOK)  # the polling period of the kernel

    def oom_kills(self):
        return self.kills


def name(pod):
    return f"troupe-test-{os.getpid()}-{pod}"


def remove_forgotten():
    """Those of tests that were killed."""
    for folder in [*ROOT.glob("*/troupe-test-*"), *ROOT.glob("troupe-test-*")]:
        if not pathlib.Path("/proc", folder.name.split("-")[2]).exists():
            with contextlib.suppress(OSError):  # still in use, or not ours to remove
                folder.rmdir()


def usable():
    """@returns the first kind of group that can be made here"""
    remove_forgotten()
    for kind in (Version1, Version2):
        with contextlib.suppress(OSError):
            group = kind(name("probe"))
            try:
                group.limit_memory(1 << 30)
                group.oom_kills()
                return kind
            finally:
                group.remove()
    return Watched
