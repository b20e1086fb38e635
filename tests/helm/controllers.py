"""Rolls a Deployment or StatefulSet from its present pods to those of its manifest, as its controller does."""
import math
import secrets
import time


def share(value, whole, rounded):
    """A number of pods, or a percentage of all."""
    return rounded(int(value[:-1]) * whole / 100) if isinstance(value, str) else int(value)


class Workload:
    """What a controller knows of a Deployment or StatefulSet."""

    def __init__(self, cluster, manifest):
        self.cluster, self.manifest, self.name = cluster, manifest, manifest["metadata"]["name"]
        self.progress = (time.monotonic(), None)  # time of the last progress, and the state then

    def apply(self, manifest):
        self.manifest, self.progress = manifest, (time.monotonic(), None)

    @property
    def replicas(self):
        return self.manifest["spec"].get("replicas", 1)

    @property
    def labels(self):
        return self.manifest["spec"]["template"]["metadata"]["labels"]

    def alive(self):
        """Its kubelets, without those of pods that are told to end."""
        selector = self.manifest["spec"]["selector"]["matchLabels"]
        kubelets = self.cluster.kubelets
        return [kubelets[pod.name] for pod in self.cluster.node.selected(selector) if pod.name in kubelets]

    def current(self, kubelet):
        return kubelet.pod.template == self.manifest["spec"]["template"]

    def available(self, kubelet):
        return kubelet.available(self.manifest["spec"].get("minReadySeconds", 0))

    def done(self):
        alive = self.alive()
        return len(alive) == self.replicas and all(self.current(k) and self.available(k) for k in alive) and not self.ending()

    def ending(self):
        """Its pods that are still on their way out."""
        selector = self.manifest["spec"]["selector"]["matchLabels"].items()
        return [pod for pod in list(self.cluster.node.pods.values()) if pod.leaving and selector <= pod.labels.items()]


class Deployment(Workload):
    """Rolled by surge, or, where the strategy is Recreate, when all old pods are gone. A pod that is told to end counts no more:
    the next one starts while it still drains."""

    def reconcile(self):
        alive = self.alive()
        new, old = [k for k in alive if self.current(k)], [k for k in alive if not self.current(k)]
        strategy = self.manifest["spec"].get("strategy", {})
        if strategy.get("type") == "Recreate":
            for kubelet in old:
                kubelet.remove()
            if any(pod.template != self.manifest["spec"]["template"] for pod in self.ending()):
                return
        rolling = strategy.get("rollingUpdate") or {"maxSurge": "25%", "maxUnavailable": "25%"}
        most = self.replicas + share(rolling["maxSurge"], self.replicas, math.ceil)
        fewest = self.replicas - share(rolling["maxUnavailable"], self.replicas, math.floor)
        for _ in range(min(self.replicas - len(new), most - len(alive))):
            self.cluster.create(f"{self.name}-{secrets.token_hex(3)}", self.manifest)
        spare = len(alive) - fewest - sum(not self.available(k) for k in new)
        for kubelet in sorted(old, key=self.available)[: max(0, spare)]:  # pods that serve nothing go first
            kubelet.remove()
        for kubelet in sorted(new, key=self.available)[: max(0, len(new) - self.replicas)]:
            kubelet.remove()
        self.watch_progress()

    def watch_progress(self):
        alive = self.alive()
        seen = (sum(map(self.current, alive)), sum(map(self.available, alive)), len(alive))
        since, before = self.progress
        if seen != before or self.done():
            self.progress = (time.monotonic(), seen)
        elif time.monotonic() - since > self.manifest["spec"].get("progressDeadlineSeconds", 600):
            self.cluster.tell(f"{self.name} exceeded its progress deadline")
            self.cluster.stalled.add(self.name)
            self.progress = (time.monotonic(), seen)


class StatefulSet(Workload):
    """Rolled from the last pod to the first: one ends, its successor becomes available, then the next one."""

    def reconcile(self):
        alive, numbers = {k.pod.name: k for k in self.alive()}, range(self.replicas)
        if self.ending():
            return
        for name in (f"{self.name}-{number}" for number in numbers):
            if name not in alive:
                self.cluster.create(name, self.manifest)
                return
        old = [name for name in (f"{self.name}-{number}" for number in reversed(numbers)) if not self.current(alive[name])]
        if old and all(map(self.available, alive.values())):
            alive[old[0]].remove()
