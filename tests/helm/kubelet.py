"""Keeps one pod as the kubelet does: starts its container, probes it with the manifest's periods and thresholds, restarts
it with back-off when it has ended, and ends it on command."""
import signal
import subprocess
import threading
import time

BACK_OFF = (0, 10, 20, 40, 80, 160, 300)  # seconds before a container's next start; the last value repeats
FORGIVEN = 600  # a container that ran for this many seconds resets the back-off
LOOK = 0.05  # polling period in seconds


class Probe:
    """One probe of a container."""

    def __init__(self, pod, kind):
        self.pod, self.kind, manifest = pod, kind, pod.container[kind]
        self.period, self.threshold = manifest["periodSeconds"], manifest["failureThreshold"]
        self.due, self.failures = time.monotonic(), 0

    def asked(self):
        """@returns True or False: what the container answered; None: not asked now"""
        if time.monotonic() < self.due:
            return None
        self.due = max(self.due + self.period, time.monotonic())
        answer = self.pod.answers(self.kind)
        self.failures = 0 if answer else self.failures + 1
        return answer

    def failed(self):
        return self.failures >= self.threshold


class Kubelet(threading.Thread):
    """A thread that keeps a pod."""

    def __init__(self, pod, tell):
        """tell: takes a line about what has happened"""
        super().__init__(daemon=True)
        self.pod, self.tell = pod, tell
        self.power, self.removed, self.gone, self.launching = *(threading.Event() for _ in range(3)), threading.Lock()
        self.ready_since = None
        self.restarts, self.failures, self.status = 0, 0, None  # status: the exit status, once the pod is gone
        self.power.set()
        self.start()

    def run(self):
        while not self.pod.leaving and not self.removed.wait(self.back_off()):
            self.power.wait()
            with self.launching:
                if self.pod.leaving:
                    return
                begun = time.monotonic()
                self.pod.launch()
            self.probe()
            self.set_ready(False)
            if self.pod.leaving or not self.power.is_set():
                continue
            self.restarts += 1
            self.failures = 1 if time.monotonic() - begun > FORGIVEN else self.failures + 1
            self.tell(f"{self.pod.name} ended with {self.pod.process.returncode}; OOM kills so far: {self.pod.group.oom_kills()}")

    def back_off(self):
        return BACK_OFF[min(self.failures, len(BACK_OFF)) - 1] if self.failures else 0

    def probe(self):
        """Asks until the container has ended, or nobody wants to know any more."""
        process = self.pod.process
        startup, readiness, liveness = (Probe(self.pod, f"{kind}Probe") for kind in ("startup", "readiness", "liveness"))
        started = False
        while process.poll() is None and not self.pod.leaving:
            if not started:
                started = startup.asked() is True
                readiness.due = liveness.due = time.monotonic()
                doomed = startup.failed()
            else:
                answer = readiness.asked()
                if answer or readiness.failed():
                    self.set_ready(answer is True)
                liveness.asked()
                doomed = liveness.failed()
            if doomed:
                self.tell(f"{self.pod.name} failed its {'liveness' if started else 'startup'} probe: killed")
                self.end(process)
            self.removed.wait(LOOK)
        process.wait()

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(self.pod.spec["terminationGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            process.kill()

    def set_ready(self, ready):
        if ready == self.pod.ready or self.pod.leaving:
            return
        self.pod.ready, self.ready_since = ready, time.monotonic() if ready else None
        self.tell(f"{self.pod.name} is {'ready' if ready else 'not ready'}")
        self.pod.node.tell_names()

    def available(self, min_ready_seconds):
        return self.pod.ready and not self.pod.leaving and time.monotonic() - self.ready_since >= min_ready_seconds

    def remove(self):
        """Begins to end the pod; `status` is there when it is `gone`."""
        self.pod.leaving = True
        self.removed.set()
        threading.Thread(target=self.terminate, daemon=True).start()

    def terminate(self):
        begun = time.monotonic()
        self.tell(f"{self.pod.name} is told to end")
        with self.launching:  # no other start follows
            self.status = self.pod.terminate()
        self.tell(f"{self.pod.name} is gone after {time.monotonic() - begun:.1f} s with {self.status}")
        self.gone.set()

    def lose_machine(self):
        """Nothing is heard of the pod's machine any more, and nothing of it is left but its disks."""
        self.power.clear()
        self.pod.plug("down")
        self.pod.process.kill()
        self.pod.process.wait()
        self.pod.detach_disks()
        self.tell(f"{self.pod.name}: its machine is lost")

    def start_machine(self):
        self.pod.attach_disks()
        self.pod.plug("up")
        self.failures = 0
        self.tell(f"{self.pod.name}: its machine is back")
        self.power.set()
