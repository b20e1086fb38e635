"""A memory cgroup for tests, if this user may create one."""
import contextlib
import os
import pathlib

V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")


class MemoryCgroup:
    """A context manager; processes enter it with `preexec_fn=cgroup.enter`, and have ended before it does."""

    def __init__(self, name, limit):
        """@raises OSError where none can be made"""
        self.is_v2 = (V2 / "cgroup.controllers").exists()
        if self.is_v2 and "memory" not in (V2 / "cgroup.subtree_control").read_text(encoding="ascii").split():
            raise OSError("the root cgroup does not hand memory on")
        self.path = (V2 if self.is_v2 else V1) / f"troupe-{os.getpid()}-{name}"
        self.path.mkdir()
        try:
            self.write("memory.max" if self.is_v2 else "memory.limit_in_bytes", limit)
        except OSError:
            self.path.rmdir()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):  # a process that could not be ended is reported elsewhere
            self.path.rmdir()

    def write(self, file, value):
        (self.path / file).write_text(str(value), encoding="ascii")

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def kills(self):
        """@returns how many of its processes were killed for want of memory"""
        text = (self.path / ("memory.events" if self.is_v2 else "memory.oom_control")).read_text(encoding="ascii")
        return int(dict(line.split() for line in text.splitlines())["oom_kill"])
