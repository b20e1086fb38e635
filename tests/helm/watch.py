"""Observes a cluster continuously: when it could not serve, and which requests failed although it
could."""
import contextlib
import http.client
import re
import threading
import time

import open_loop

# Kinds of trouble: no scheduler answers; the scheduler reports an expert without a host; the gateways' Service has no
# endpoint, which excuses nothing.
LEADERLESS, HOSTLESS, DARK = "leaderless", "hostless", "dark"
SETTLED = 3  # seconds until all have found a returned scheduler: defaults::reconnect_max, a new lease
LOOK = 0.25  # polling period in seconds


class Watch(threading.Thread):
    """A thread that looks until it is stopped."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.stopping, self.begun = cluster, threading.Event(), time.monotonic()
        # of each: (begin, end) of the time before the poll that saw it
        self.troubles = {LEADERLESS: [], HOSTLESS: [], DARK: []}
        self.start()

    def run(self):
        before = time.monotonic()
        while not self.stopping.wait(LOOK):
            count, now = self.experts_without_host(), time.monotonic()
            if count is None:
                self.troubles[LEADERLESS].append((before, now))
            elif count and now - self.last(LEADERLESS) > SETTLED:
                self.troubles[HOSTLESS].append((before, now))
            if not self.cluster.endpoints("gateway"):
                self.troubles[DARK].append((before, now))
            before = now

    def experts_without_host(self):
        """@returns None where no scheduler says"""
        for address in self.cluster.endpoints("scheduler"):
            connection = http.client.HTTPConnection(address, 7080, timeout=2)
            with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("GET", "/metrics")
                told = re.search(rb"^troupe_experts_without_host\S* (\S+)", connection.getresponse().read(), re.M)
                if told:
                    return float(told[1])
        return None

    def last(self, *troubles):
        """@returns when one of these was last seen; when looking began, if never"""
        return max([self.begun, *(end for trouble in troubles for _, end in self.troubles[trouble])])

    def lasted(self, trouble):
        return sum(end - begin for begin, end in self.troubles[trouble])

    def excuses(self, outcome):
        """Whether nobody could have served this request at some time of its life."""
        return any(outcome.begun <= end and begin <= outcome.ended for begin, end in self.troubles[HOSTLESS]) or any(
            outcome.begun <= end + SETTLED and begin <= outcome.ended for begin, end in self.troubles[LEADERLESS])

    def failed(self, outcomes):
        """@returns those of requests that were not served, though they could have been, or were not told so in words"""
        return [o for o in outcomes if o.kind != open_loop.OK and not (o.kind == open_loop.TOLD and self.excuses(o))]
