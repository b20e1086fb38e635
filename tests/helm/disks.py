"""A folder as a disk: each pod that mounts it has its own device and its own pages in memory, as pods on separate machines
do; a pod's control group limits the speed."""
import contextlib
import pathlib
import subprocess

READ_AHEAD = 256  # sectors of 512 bytes: the kernel's default for disks
SPARE = 32 << 20  # bytes for the file system itself


class Disk:
    """A file system that holds what is in a folder."""

    def __init__(self, folder, image):
        self.image, self.rate = pathlib.Path(image), 0  # bytes a second; 0: unlimited
        self.attached = []  # (device, group)
        size = sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*"))
        self.image.unlink(missing_ok=True)
        run("mke2fs", "-q", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-d", folder, self.image,
            f"{(size * 102 // 100 + SPARE) >> 10}k")

    def attach(self, target, group):
        """Mounts it at a folder, for the processes of a group."""
        target.mkdir(parents=True, exist_ok=True)
        device = run("losetup", "--find", "--show", "--read-only", self.image)
        run("blockdev", "--setra", READ_AHEAD, device)
        run("mount", "-o", "ro", device, target)
        run("losetup", "--detach", device)  # once it is not mounted
        number = pathlib.Path("/sys/block", pathlib.Path(device).name, "dev").read_text(encoding="ascii").strip()
        self.attached.append((number, group))
        group.limit_reads(number, self.rate)

    def slow(self, rate):
        """So many bytes a second are what each pod reads of it from now on."""
        self.rate = int(rate)
        for device, group in list(self.attached):
            with contextlib.suppress(FileNotFoundError):  # the pod is gone
                group.limit_reads(device, self.rate)

    @staticmethod
    def detach(target):
        run("umount", "--lazy", target)


def run(*argv):
    return subprocess.run([str(word) for word in argv], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
