"""Stops some threads of a process as long as this program runs, while its other threads continue.

usage: stop_threads.py PID NAME|nice:N|compute

Those with this name (/proc/PID/task/*/comm), with this niceness, or those that compute: pinned to a processor, and not waiting for the network.

It says how many they are. They are stopped by ptrace, which needs the rights of a debugger, and no debugger: another one cannot look at them
meanwhile. They go on when this program ends, and die with their process.
"""
import ctypes
import os
import pathlib
import signal
import sys

SEIZE, INTERRUPT = 0x4206, 0x4207
WALL = 0x40000000  # threads, too
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


def ptrace(request, thread):
    if LIBC.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace of thread {thread}: {os.strerror(ctypes.get_errno())}")


def wanted_threads(pid, which):
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if which.startswith("nice:"):
            niceness = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[16]
            if niceness == which.removeprefix("nice:"):
                yield int(task.name)
        elif which == "compute":
            waits_for = (task / "wchan").read_text(encoding="utf-8")
            if len(os.sched_getaffinity(int(task.name))) == 1 and "epoll" not in waits_for:
                yield int(task.name)
        elif (task / "comm").read_text(encoding="utf-8").strip() == which:
            yield int(task.name)


def main():
    pid, which = int(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threads = list(wanted_threads(pid, which))
    for thread in threads:
        ptrace(SEIZE, thread)
        ptrace(INTERRUPT, thread)
    print(len(threads), flush=True)
    while threads:  # a traced thread's end must be collected by its tracer, or its process stays
        try:
            os.waitpid(-1, WALL)
        except ChildProcessError:
            break


if __name__ == "__main__":
    main()
