"""The faults behind the alerts of deploy/prometheus/rules, as far as a local cluster can have them.

Each is a context manager that is given a stage, causes the fault and yields what the runbook's variables are then, beyond those that every stage
has. It stays until the alert no longer fires: what it takes back at its end is not what the runbook was to mend.
"""
import contextlib
import functools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

from runbook_stage import KEYS, PATIENCE, wait_for

FAULTS = {}  # name of the alert -> (kind of stage, other alerts that the same fault must set off, context manager)
STOP_THREADS = pathlib.Path(__file__).with_name("stop_threads.py")


class Unavailable(Exception):
    """Why this machine cannot have the fault."""


def fault(alert, stage="plain", also=()):
    def declare(function):
        FAULTS[alert] = (stage, also, contextlib.contextmanager(function))
        return function
    return declare


def stand_still(stage, name):
    os.kill(stage.pid(name), signal.SIGSTOP)


@contextlib.contextmanager
def stopped_threads(stage, name, which):
    """Threads of a process stand still, see stop_threads.py."""
    helper = subprocess.Popen([sys.executable, STOP_THREADS, str(stage.pid(name)), which], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    try:
        if not (count := helper.stdout.readline().strip()):
            raise Unavailable(f"threads cannot be stopped: {helper.stderr.read().splitlines()[-1]}")
        if count == "0":
            raise AssertionError(f"{name} has no thread {which}")
        yield
    finally:
        helper.kill()
        helper.communicate()


def spoken(tokens):
    return {"prompt": [7] * 16, "max_tokens": tokens}


# -- processes ---------------------------------------------------------------------------------------------------------


@fault("TroupeProcessDown")
def process_down(stage):
    stand_still(stage, "expert-1")
    yield {}


@fault("TroupeCrashLoop")
def crash_loop(stage):
    """Whenever a request of one client is computed, its worker dies, as by a fault in the program."""
    def num_answers():
        return len(stage.cluster.said(r" request: .* key_name=mallory$"))

    with stage.load("mallory", [spoken(480)], 1):
        for count in range(num_answers(), num_answers() + 3):
            wait_for("a request is computed", lambda: stage.prometheus.value("sum(troupe_num_requests_running)") > 0)
            stage.cluster.kill("attention-0")
            wait_for("it is computed again, and answered", lambda count=count: num_answers() > count)
        yield {"EDITOR": stage.editor("sed -i '/^mallory /d' \"$1\"")}
        stage.keys.write_text(stage.keys.read_text(encoding="utf-8") + "mallory key-of-mallory-0123456789\n", encoding="utf-8")
    os.kill(stage.pid("gateway-0"), signal.SIGHUP)


@fault("TroupePodCrashLoop")
def pod_crash_loop(stage):
    raise Unavailable("it needs kube-state-metrics; its entry is that of TroupeCrashLoop")
    yield {}


@fault("TroupeNoGateway")
def no_gateway(stage):
    stand_still(stage, "gateway-0")
    yield {}


@fault("TroupeNoScheduler")
def no_scheduler(stage):
    stand_still(stage, "scheduler-0")
    yield {}


@fault("TroupeWorkerHung")
def worker_hung(stage):
    """The threads that compute stand still; the actors of their process do not."""
    with stopped_threads(stage, "expert-1", "compute"), stage.load("alice", [{"prompt": list(range(1, 400)), "max_tokens": 8}], 4):
        yield {}


@fault("TroupeWorkerFenced")
def worker_fenced(stage):
    """The clock of its actors stands still: no renewal of the lease is sent, and the connection stays."""
    with stopped_threads(stage, "expert-1", "caf.clock"):
        yield {}


@fault("TroupeDescriptorsLow")
def descriptors_low(stage):
    pid = stage.pid("gateway-0")
    opened = len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
    subprocess.run(["prlimit", f"--nofile={opened + 2}:", "--pid", str(pid)], check=True)
    yield {}


@fault("TroupeReloadFailed")
def reload_failed(stage):
    with open(stage.keys, "a", encoding="utf-8") as keys:
        keys.write("a name with blanks\n")
    os.kill(stage.pid("gateway-0"), signal.SIGHUP)
    yield {"FILE": stage.keys, "EDITOR": stage.editor("sed -i '$d' \"$1\"")}


@fault("TroupeClusterNotReady")
def cluster_not_ready(stage):
    stand_still(stage, "attention-0")
    yield {}


# -- placement ---------------------------------------------------------------------------------------------------------


@fault("TroupeExpertsWithoutHost", stage="tight")
def experts_without_host(stage):
    stand_still(stage, "expert-1")
    yield {}


def run_placement(stage, *words):
    return subprocess.run([stage.binaries / "troupe", "placement", *words, "--url", stage.url], capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, "OPENAI_API_KEY": KEYS["alice"]})


def placement(stage, *words):
    done = run_placement(stage, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def drained(stage):
    return json.loads(placement(stage, "--json"))["drained"]


def undrain(stage, worker):
    """Asked again where it is refused: the planner may have begun a change of its own."""
    wait_for(f"{worker} is undrained", lambda: worker not in drained(stage) or run_placement(stage, "undrain", "--worker", worker).returncode == 0)


@fault("TroupeLoadImbalanced")
def load_imbalanced(stage):
    """Somebody has drained a worker and forgotten it."""
    placement(stage, "drain", "--worker", "expert-1")
    placement(stage, "wait")
    with stage.load("alice", [spoken(64)], 2):
        yield {}


@fault("TroupePlacementStuck")
def placement_stuck(stage):
    """A worker that is to load does not, as with a disk that hangs: the thread that loads has the lowest priority."""
    hung, other = stage.pid("expert-1"), stage.pid("expert-0")
    with stopped_threads(stage, "expert-1", "nice:19"):
        placement(stage, "drain", "--worker", "expert-0")
        yield {}
    pids = stage.cluster.pids()
    assert pids.get("expert-0") == other, "the runbook has ended the worker that nobody waits for"
    assert pids.get("expert-1") != hung, "the runbook has not ended the worker that does not load"
    undrain(stage, "expert-0")


@fault("TroupeStateDirectoryFull")
def state_directory_full(stage):
    if stage.state.parent.name != "disk":
        raise Unavailable("no file system can be mounted here")
    filler = stage.state.parent / "somebody-elses-file"
    filler.write_bytes(bytes(50 << 20))
    yield {"FILE": filler}


# -- capacity ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def crowd(stage, bodies, clients=32):
    """One client asks for more than there is, until its key is bounded."""
    bound = json.dumps({"keys": {"crowd": {"concurrent_requests": 1}}})
    with stage.load("crowd", bodies, clients):
        yield {"EDITOR": stage.editor(f"echo '{bound}' > \"$1\"")}
    stage.limits.write_text("{}\n", encoding="utf-8")
    os.kill(stage.pid("gateway-0"), signal.SIGHUP)


LONG = [{"prompt": list(range(1, 100)), "max_tokens": 400}]
# Answers are expected to be short, so too many get a place, and some are long.
MIXED = [{"prompt": [5] * 16, "max_tokens": tokens} for tokens in (1, 1, 1, 490)]


@fault("TroupeRequestsRefused", stage="crowded", also=("TroupeQueueNearlyFull",))
def requests_refused(stage):
    with crowd(stage, LONG) as variables:
        yield variables


@fault("TroupeKvCacheFull", stage="crowded")
def kv_cache_full(stage):
    with crowd(stage, MIXED) as variables:
        yield variables


@fault("TroupeConnectionsNearlyFull", stage="crowded")
def connections_nearly_full(stage):
    with contextlib.ExitStack() as held:
        for _ in range(int(stage.prometheus.value("troupe_http_connections_limit")) - 3):
            held.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", stage.cluster.port))))
        yield {}


# -- objectives --------------------------------------------------------------------------------------------------------


@fault("TroupeErrorBudgetBurns", also=("TroupeErrorBudgetBurnsSlowly",))
def error_budget_burns(stage):
    stand_still(stage, "attention-0")
    # Requests with a place there would wait for another worker.
    wait_for("the worker is missed", lambda: stage.prometheus.value("max(troupe_cluster_ready)") == 0)
    with stage.load("alice", [spoken(4)], 2):
        yield {}


@fault("TroupeFirstTokensSlow", stage="crowded", also=("TroupeFirstTokensSlowly",))
def first_tokens_slow(stage):
    with crowd(stage, LONG) as variables:
        yield variables


@fault("TroupeTokensSlow", also=("TroupeTokensSlowly",))
def tokens_slow(stage):
    """A neighbour on the machine of one expert worker takes all processors."""
    pid = stage.pid("expert-1")
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(task.name), 19)
    neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]

    def late(worker):
        return stage.prometheus.value(f'avg_over_time(scrape_duration_seconds{{process="{worker}"}}[30s])')

    try:
        with stage.load("alice", [spoken(256)], 1):
            wait_for("one worker's scrapes are late", lambda: late("expert-1") > max(4 * late("expert-0"), 0.02), PATIENCE)
            yield {}
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
    assert drained(stage) == ["expert-1"], "the runbook has found another worker to be the slow one"
    undrain(stage, "expert-1")
    stage.cluster.kill("expert-1")  # with its usual priority


# -- certificates ------------------------------------------------------------------------------------------------------


def issue(folder, days):
    """@returns the command that writes tls.pem and tls.key, valid for so long, into a folder"""
    return (f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days {days} -keyout {folder}/tls.key "
            f"-out {folder}/tls.pem -subj /CN=gateway -addext subjectAltName=DNS:localhost,IP:127.0.0.1")


@fault("TroupeCertificateEnds", stage="tls", also=("TroupeCertificateEndsNow",))
def certificate_ends(stage):
    subprocess.run(issue(stage.work, 1).split(), check=True, capture_output=True)
    os.kill(stage.pid("gateway-0"), signal.SIGHUP)
    yield {"CERT": stage.work / "tls.pem", "RENEW": issue(stage.work, 90)}
