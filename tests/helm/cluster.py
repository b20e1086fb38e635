"""What a cluster does with the manifests of a release: all workloads are controlled at once, pods are spread over machines,
Services lead to ready pods, and machines are drained within the PodDisruptionBudgets."""
import math
import threading
import time

import chart
from controllers import Deployment, StatefulSet, share
from kubelet import Kubelet

LOOK = 0.1  # polling period in seconds
EVICTION_RETRY = 5  # seconds until a refused eviction is tried again, as in kubectl


class Cluster:
    """Machines with the pods of one release, and what controls them."""

    def __init__(self, node, machines, tell):
        """machines: how many the pods are spread over, for drain(). tell: takes a line about what has happened"""
        self.node, self.tell, self.machines = node, tell, machines
        self.kubelets, self.everyone, self.workloads, self.cordoned = {}, [], {}, set()
        self.stalled, self.errors, self.stopping = set(), [], threading.Event()  # stalled: workloads beyond their deadline
        self.thread = threading.Thread(target=self.control, daemon=True)
        self.thread.start()

    def apply(self, manifests):
        self.node.add(manifests)
        for manifest in chart.workloads(manifests):
            name = manifest["metadata"]["name"]
            if name in self.workloads:
                self.workloads[name].apply(manifest)
            else:
                self.workloads[name] = {"Deployment": Deployment, "StatefulSet": StatefulSet}[manifest["kind"]](self, manifest)

    def control(self):
        try:
            while not self.stopping.wait(LOOK):
                for workload in list(self.workloads.values()):
                    workload.reconcile()
        except BaseException as error:  # check() raises it
            self.errors.append(error)

    def check(self):
        if self.errors:
            raise self.errors[0]

    def create(self, name, manifest):
        """On the machine that has the fewest pods of the workload, then the fewest at all: the soft anti-affinity."""
        used = [pod.machine for pod in list(self.node.pods.values()) if not pod.leaving]
        same = [kubelet.pod.machine for kubelet in self.workloads[manifest["metadata"]["name"]].alive()]
        machine = min((m for m in range(self.machines) if m not in self.cordoned), key=lambda m: (same.count(m), used.count(m)))
        self.tell(f"{name} is created on machine {machine}")
        self.kubelets[name] = Kubelet(self.node.create(name, manifest, machine), self.tell)
        self.everyone.append(self.kubelets[name])

    def done(self):
        """Whether `kubectl rollout status` would say so of every workload."""
        self.check()
        return all(workload.done() for workload in self.workloads.values())

    def endpoints(self, component):
        """The addresses that the Service of a component leads to."""
        return [pod.address for pod in self.node.selected({"app.kubernetes.io/component": component}) if pod.ready]

    def of(self, component):
        """The kubelets of a component's pods."""
        return [self.kubelets[pod.name] for pod in self.node.selected({"app.kubernetes.io/component": component})]

    def disruption_allowed(self, pod):
        """Whether the budgets of the pod let it be evicted."""
        for (kind, _), budget in list(self.node.objects.items()):
            selector = budget.get("spec", {}).get("selector", {}).get("matchLabels") if kind == "PodDisruptionBudget" else None
            if selector is None or not selector.items() <= pod.labels.items():
                continue
            whole = sum(w.replicas for w in self.workloads.values() if selector.items() <= w.labels.items())
            healthy = sum(p.ready for p in self.node.selected(selector))
            if "minAvailable" in budget["spec"]:
                needed = share(budget["spec"]["minAvailable"], whole, math.ceil)
            else:
                needed = whole - share(budget["spec"]["maxUnavailable"], whole, math.ceil)
            if healthy - needed < 1:
                return False
        return True

    def drain(self, machine, deadline):
        """As `kubectl drain`: no new pods on it, and its pods evicted as the budgets let them. Uncordoned at the end."""
        self.cordoned.add(machine)
        end, left = time.monotonic() + deadline, True
        while left:
            self.check()
            left = [pod for pod in list(self.node.pods.values()) if pod.machine == machine]
            for pod in left:
                if not pod.leaving and self.disruption_allowed(pod):
                    self.kubelets[pod.name].remove()
            assert time.monotonic() < end, f"machine {machine}: {[pod.name for pod in left]} are still there after {deadline} s"
            self.stopping.wait(EVICTION_RETRY if any(not pod.leaving for pod in left) else LOOK)
        self.cordoned.discard(machine)

    def restarts(self):
        return sum(kubelet.restarts for kubelet in self.everyone)

    def stop(self):
        """Ends the controllers, then all pods at once. @returns the exit statuses that are not 0, by name"""
        self.stopping.set()
        self.thread.join()
        for pod in list(self.node.pods.values()):
            if not pod.leaving:
                self.kubelets[pod.name].remove()
        for kubelet in self.everyone:
            kubelet.gone.wait()
        return {k.pod.name: k.status for k in self.everyone if k.status != 0}
