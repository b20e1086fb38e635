"""A folder as a disk that is as slow as wanted where no control group can slow one: a file system that this process serves,
read-only. The protocol is that of linux/fuse.h, version 7.31."""
import errno
import os
import pathlib
import struct
import subprocess
import threading
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, INIT, OPENDIR, READDIR = 1, 2, 3, 14, 15, 17, 26, 27, 28
INTERRUPT, BATCH_FORGET = 36, 42
EMPTY = (18, 25, 29, 34, 38)  # RELEASE, FLUSH, RELEASEDIR, ACCESS, DESTROY: empty answers
REQUEST, ANSWER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
READ_AHEAD = 128 << 10  # bytes: the kernel's default for disks
CHUNK = 1 << 20  # bytes: more than any request has
VALID = 3600  # seconds that names and sizes may be cached
KEEP_CACHE = 2  # keep the cache when a file is closed
ROOT = 1  # the number of the folder


class FuseDisk:
    """What disks.Disk is, without a device."""

    def __init__(self, folder):
        self.folder, self.rate = pathlib.Path(folder), 0
        self.files = sorted(path for path in self.folder.rglob("*"))

    def slow(self, rate):
        self.rate = int(rate)

    def attach(self, target, _):
        target.mkdir(parents=True, exist_ok=True)
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"ro,fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        subprocess.run(["mount", "-i", "-t", "fuse", "-o", options, "model", target], check=True, pass_fds=[device])
        threading.Thread(target=Mount(self, device).serve, daemon=True).start()

    @staticmethod
    def detach(target):
        subprocess.run(["umount", "--lazy", target], check=True)


class Mount:
    """Answers the kernel for one mount: files are read one request after the other, as from a disk."""

    def __init__(self, disk, device):
        self.disk, self.device, self.free_at = disk, device, 0.0
        self.paths = {ROOT: disk.folder, **{ROOT + 1 + number: path for number, path in enumerate(disk.files)}}
        self.numbers = {path: number for number, path in self.paths.items()}
        self.open = {number: os.open(path, os.O_RDONLY) for number, path in self.paths.items() if path.is_file()}

    def serve(self):
        while True:
            try:
                message = os.read(self.device, CHUNK)
            except InterruptedError:
                continue
            except OSError:  # it has been unmounted
                break
            _, kind, unique, node, *_ = REQUEST.unpack_from(message)
            if kind in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            answer = self.answer(kind, node, message[REQUEST.size:])
            error, body = (answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self.device, ANSWER.pack(ANSWER.size + len(body), -error, unique) + body)
        for file in [self.device, *self.open.values()]:
            os.close(file)

    def answer(self, kind, node, body):
        """@returns the bytes, or the number of an error"""
        if kind == INIT:
            return struct.pack("<IIIIHHIIHHIIH22x", 7, 31, READ_AHEAD, 0, 16, 12, 1 << 12, 1, 0, 0, 0, 0, 0)
        if kind == LOOKUP:
            number = self.numbers.get(self.paths[node] / os.fsdecode(body.rstrip(b"\0")))
            return struct.pack("<QQQQII", number, 0, VALID, VALID, 0, 0) + self.attributes(number) if number else errno.ENOENT
        if kind == GETATTR:
            return struct.pack("<QII", VALID, 0, 0) + self.attributes(node)
        if kind in (OPEN, OPENDIR):
            return struct.pack("<QIi", 0, KEEP_CACHE, 0)
        if kind in (READ, READDIR):
            _, offset, size = struct.unpack_from("<QQI", body)
            return self.read(node, offset, size) if kind == READ else self.names(node)[offset : offset + size]
        if kind == STATFS:
            return struct.pack("<QQQQQIII28x", 1 << 20, 0, 0, len(self.paths), 0, 4096, 255, 4096)
        return b"" if kind in EMPTY else errno.ENOSYS

    def attributes(self, number):
        told = self.paths[number].stat()
        times = 3 * [int(told.st_mtime)]
        owner = (told.st_mode, 1, 0, 0)  # and links, user, group
        return struct.pack("<QQQQQQIIIIIIIIII", number, told.st_size, told.st_blocks, *times, 0, 0, 0, *owner, 0, 4096, 0)

    def read(self, number, offset, size):
        data = os.pread(self.open[number], size, offset)
        if self.disk.rate:
            self.free_at = max(self.free_at, time.monotonic()) + len(data) / self.disk.rate
            time.sleep(max(0, self.free_at - time.monotonic()))  # makes the disk slow
        return data

    def names(self, node):
        """The entries of a folder: the offset of each tells where the next one is."""
        entries, listed = b"", [path for path in self.disk.files if path.parent == self.paths[node]]
        for path in listed:
            name = os.fsencode(path.name)
            length = 24 + len(name) + -len(name) % 8
            kind = 4 if path.is_dir() else 8
            entries += struct.pack(f"<QQII{length - 24}s", self.numbers[path], len(entries) + length, len(name), kind, name)
        return entries
