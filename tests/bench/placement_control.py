"""Orders placements of experts from a cluster (`POST /cluster/placement`), and computes them. Standard library."""

import json
import time


POLL = 0.1  # seconds between two requests to the control interface


class Refused(RuntimeError):
    pass


class Control:
    """Of one cluster (tests/system/cluster.py)."""

    def __init__(self, cluster):
        self.cluster = cluster

    def ask(self, action, **members):
        """@returns the answer: {"change", "moves", "bytes", "before", "after", "experts", …}"""
        status, _, raw = self.cluster.request("POST", "/cluster/placement", {"action": action, **members})
        if status != 200:
            raise Refused(f"POST /cluster/placement {action}: status {status}: {raw.decode(errors='replace')[:500]}")
        return json.loads(raw)

    def assign(self, hosts):
        """@param hosts  {(layer, expert): [names of workers]}"""
        experts = [{"layer": layer, "expert": expert, "hosts": names} for (layer, expert), names in sorted(hosts.items())]
        return self.ask("assign", experts=experts)

    def state(self):
        """{"planner", "change", "pins", "drained", "last"}"""
        status, _, raw = self.cluster.request("GET", "/cluster/placement")
        if status != 200:
            raise Refused(f"GET /cluster/placement: status {status}: {raw.decode(errors='replace')[:500]}")
        return json.loads(raw)

    def wait_done(self, timeout):
        """Until no change is under way. @returns the state then"""
        end = time.monotonic() + timeout
        while (state := self.state())["change"] is not None:
            if time.monotonic() > end:
                raise RuntimeError(f"a change was not done within {timeout:.0f} s: {state['change']}")
            time.sleep(POLL)
        return state

    def placement(self):
        """@returns ({(layer, expert): [names]}, names of the expert workers)"""
        status, _, raw = self.cluster.request("GET", "/cluster")
        page = json.loads(raw)
        if status != 200 or "layers" not in page.get("placement", {}):
            raise Refused(f"GET /cluster: status {status}, and no placement: {raw.decode(errors='replace')[:500]}")
        hosts = {
            (layer["layer"], expert): names
            for layer in page["placement"]["layers"]
            for expert, names in enumerate(layer["experts"])
        }
        workers = sorted(worker["name"] for worker in page["workers"] if worker["role"] == "expert")
        return hosts, workers


def half_moved(hosts, workers):
    """Every second expert of each worker and layer goes to the next worker, so that all hold as many as before.

    @param hosts  {(layer, expert): [names]}
    @returns the experts that move, {(layer, expert): [names]}; only the first host of an expert moves
    """
    following = dict(zip(workers, workers[1:] + workers[:1]))
    seen, moved = {}, {}
    for (layer, expert), names in sorted(hosts.items()):
        if not names:
            continue
        first, *others = names
        place = seen[layer, first] = seen.get((layer, first), -1) + 1
        to = following[first]
        if place % 2 == 0 and to not in names:
            moved[layer, expert] = [to, *others]
    return moved


def expected_busiest(windows, layer, host_of, workers):
    """Rows of the busiest worker over the mean, averaged over windows: 1 is even."""
    total = 0.0
    for window in windows:
        loads = dict.fromkeys(workers, 0)
        for expert, rows in enumerate(window[layer]):
            loads[host_of[expert]] += rows
        total += max(loads.values()) / max(1e-9, sum(loads.values()) / len(workers))
    return total / len(windows)


def oracle_placement(windows, workers):
    """The best fixed placement that we find knowing all windows: one host an expert, as many experts on each worker.

    Greedy by all rows, then exchanges of two experts as long as one lowers the busiest worker's rows, mean over windows.
    @param windows  [window][layer][expert] rows; layers without experts are []
    @returns {(layer, expert): [name]}
    """
    result = {}
    for layer, experts in enumerate(windows[0]):
        host_of = _greedy(windows, layer, len(experts), workers)
        _exchange(windows, layer, host_of, workers)
        result.update({(layer, expert): [host_of[expert]] for expert in range(len(experts))})
    return result


def _greedy(windows, layer, num_experts, workers):
    rows = [sum(window[layer][expert] for window in windows) for expert in range(num_experts)]
    slots = -(-num_experts // len(workers))
    loads, held, host_of = dict.fromkeys(workers, 0), dict.fromkeys(workers, 0), {}
    for expert in sorted(range(num_experts), key=lambda e: -rows[e]):
        to = min((worker for worker in workers if held[worker] < slots), key=lambda w: loads[w])
        loads[to] += rows[expert]
        held[to] += 1
        host_of[expert] = to
    return host_of


def _exchange(windows, layer, host_of, workers):
    experts = sorted(host_of)
    best = expected_busiest(windows, layer, host_of, workers) if experts else 0
    improved = True
    while improved:
        improved = False
        for first in experts:
            for second in experts[first + 1 :]:
                if host_of[first] == host_of[second]:
                    continue
                host_of[first], host_of[second] = host_of[second], host_of[first]
                now = expected_busiest(windows, layer, host_of, workers)
                if now < best - 1e-9:
                    best, improved = now, True
                else:
                    host_of[first], host_of[second] = host_of[second], host_of[first]
