#!/usr/bin/env python3
"""`troupe top` beside a live cluster: as text, in a terminal, while the gateway is away, and how it ends.

usage: top_test.py BINARIES MODEL_DIR WORK_DIR
"""
import fcntl
import http.server
import json
import os
import pathlib
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

from cluster import Cluster

PATIENCE = 60  # seconds
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


def history_page(rows):
    """One window of one layer with two experts."""
    counted = sum(rows[0][1::2])
    return {"format": "troupe-history 1", "fingerprint": "f", "layer_experts": [2], "half_life_ms": 60000, "age_ms": 1000,
            "tokens": counted, "rows": counted, "decayed": [[0.0, 0.0]],
            "windows": [{"worker": "1", "sequence": 1, "at_ms": 0, "duration_ms": 1000, "tokens": counted, "rows": rows}]}


class Load:
    """Requests one after another, until the end of the block."""

    def __init__(self, cluster):
        self.cluster, self.is_over = cluster, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.is_set():
            self.cluster.post("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 8, "ignore_eos": True})

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


class Gateway:
    """Answers pages that are given, as a gateway would: what a live one does not do on demand."""

    METRICS = "troupe_generation_tokens_total 5\ntroupe_prompt_tokens_total 7\n"
    CLUSTER = {"ready": True, "scheduler": {"reachable": True, "term": 3, "queued": 2, "assigned": 5},
               "workers": [{"name": "expert-0", "role": "expert", "endpoint": "127.0.0.1:1", "lease_age_ms": 10,
                            "load": {"running": 1, "waiting": 9, "kv_tokens_used": 0, "oldest_step_ms": 0},
                            "hosted": [[0, 0], [0, 1]]}],
               "placement": {"term": 3, "epoch": 1, "layers": [{"layer": 0, "version": 1, "experts": [["expert-0"], ["expert-0"]]}]}}
    PLACEMENT = {"planner": "on", "imbalance": 1.25, "change": None, "last": None, "drained": []}
    HISTORY = history_page([[0, 9, 1, 3]])
    PAGES = {"/metrics": METRICS, "/cluster": CLUSTER, "/cluster/placement": PLACEMENT, "/cluster/history?windows=8": HISTORY}

    def __init__(self, hung=(), port=0, **changed):
        """hung: pages that never come; port: 0 for a free one; changed: other answers by the page's last word, None for a 503"""
        self.pages = pages = {path: changed.get(re.search(r"(\w+)(\?|$)", path)[1], page) for path, page in self.PAGES.items()}
        self.asked = asked = []  # paths, one after another
        self.is_over = is_over = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                page = pages.get(self.path)
                if self.path in hung:
                    is_over.wait()
                    return
                body = (page if isinstance(page, str) else json.dumps(page or {"error": {"message": "it is away"}})).encode()
                self.send_response(503 if page is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a client that does not wait for a page that never comes

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def once(troupe, url, *flags):
    """The lines of `troupe top --once`."""
    argv = [troupe, "top", "--once", "--url", url, "--interval", "0.2", *flags]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.split("\n")


class Terminal:
    """A program in a terminal of its own, 80 x 24."""

    def __init__(self, argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.execv(argv[0], argv)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen = b""

    def read(self, end):
        if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
            return b""
        try:
            return os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return b""

    def wait_for(self, text):
        """Until it has shown this; what was shown before is forgotten."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            part = self.read(end)
            assert part, f"{text!r} was not shown: {self.seen[-3000:]!r}"
            self.seen += part
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def type(self, keys):
        os.write(self.fd, keys)

    def echoes(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def wait_stopped(self):
        """Until it has been stopped by a signal."""
        too_late = threading.Timer(PATIENCE, os.kill, (self.pid, signal.SIGKILL))
        too_late.start()
        status = os.waitpid(self.pid, os.WUNTRACED)[1]
        too_late.cancel()
        assert os.WIFSTOPPED(status), status

    def set_echo(self):
        """As a shell sets its own modes when the program is stopped."""
        modes = termios.tcgetattr(self.fd)
        modes[3] |= termios.ECHO | termios.ICANON
        termios.tcsetattr(self.fd, termios.TCSANOW, modes)

    def wait_end(self):
        """@returns what it showed at last, and its exit status; `echoes_at_end` says how it left the terminal"""
        end = time.monotonic() + PATIENCE
        while part := self.read(end):
            self.seen += part
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.echoes_at_end = self.echoes()
        os.close(self.fd)
        return self.seen, status


def test_once(troupe, cluster):
    with Load(cluster):
        text = subprocess.run([troupe, "top", "--once", "--url", f"http://127.0.0.1:{cluster.port}", "--interval", "1"],
                              check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    lines = text.splitlines()
    assert "\x1b" not in text, text
    figures = {line[:12].strip(): line[12:] for line in lines[1:] if len(line) > 12}
    assert figures["cluster"].startswith("ready, term "), text
    new_tokens = float(re.search(r"([\d.]+) new$", figures["tokens/s"])[1])
    assert new_tokens > 0, text
    assert re.fullmatch(r"p50 [\d.]+ (us|ms|s), p99 [\d.]+ (us|ms|s)", figures["first token"]), text
    assert re.fullmatch(r"p50 [\d.]+ (us|ms|s), p99 [\d.]+ (us|ms|s)", figures["between"]), text
    assert re.search(r"\d+ of \d+ tokens; prefix hits \d+%$", figures["KV cache"]), text
    assert "planner on" in figures["placement"], text
    table = [line.split() for line in lines[lines.index("") + 1:]]
    assert table[0] == ["ROLE", "WORKER", "STATE", "RUNNING", "WAITING", "LOAD", "MEMORY"], text
    assert {row[1] for row in table[1:]} == {"attention-0", "expert-0", "expert-1", "gateway-0"}, text
    assert all(row[2] == "ok" for row in table[1:]), text


def test_targets(troupe, cluster):
    """With the file that `troupe up` writes: memory and processor time of every process, the scheduler's too."""
    text = subprocess.run([troupe, "top", "--once", "--url", f"http://127.0.0.1:{cluster.port}", "--interval", "0.2",
                           "--targets", cluster.run_dir / "prometheus-targets.json"],
                          check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    lines = text.splitlines()
    table = lines[lines.index("") + 1:]
    assert table[0].split()[6:] == ["CPUS", "RESIDENT", "MEMORY"], text
    assert re.search(r"^scheduler  scheduler(-0)? +ok .* [\d.]+ +\d+ MiB  -$", text, re.MULTILINE), text
    for name in "attention-0", "expert-0", "expert-1", "gateway-0":
        assert re.search(rf" {name} .* [\d.]+ +\d+ MiB  ", text), text


def test_wrong_targets(troupe, work):
    """A name that cannot be looked up holds nothing up, and is told with its place in the file; so is what is no address."""
    targets = work / "targets.json"
    with Gateway() as gateway:
        targets.write_text('[{"targets":\n["nobody.invalid:1"],\n"labels": {"role": "expert", "process": "expert-7"}}]')
        lines = once(troupe, gateway.url, "--targets", targets)
        assert any(line.startswith(f"not read    {targets}:2: expert-7: GET /metrics: the name 'nobody.invalid' ")
                   for line in lines), lines
        assert any(re.match("expert +expert-7 +no answer", line) for line in lines), lines
        targets.write_text('[{"targets": ["a:1",\n\n"nobody"]}]')
        refused = subprocess.run([troupe, "top", "--once", "--url", gateway.url, "--targets", targets], capture_output=True,
                                 text=True, timeout=PATIENCE)
        assert refused.returncode == 2, refused
        assert f"--targets: {targets}:3: 'nobody' is not of the form HOST:PORT" in refused.stderr, refused


def test_pipe(troupe, cluster):
    """Not a terminal: screens as text, one after the other, until SIGTERM."""
    argv = [troupe, "top", "--url", f"http://127.0.0.1:{cluster.port}", "--interval", "0.2"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        screens = 0
        too_late = threading.Timer(PATIENCE, process.kill)
        too_late.start()
        while screens < 3:
            line = process.stdout.readline()
            assert line, f"it ended after {screens} screens"
            screens += line.startswith("troupe top - ")
        too_late.cancel()
        process.terminate()
        rest, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (process.returncode, rest)
        assert "\x1b" not in rest


def test_terminal(troupe, cluster, end_it):
    terminal = Terminal([troupe, "top", "--url", f"http://127.0.0.1:{cluster.port}", "--interval", "0.2"])
    assert terminal.echoes()
    terminal.wait_for(ENTER)
    terminal.wait_for(b"attention-0")
    assert not terminal.echoes()
    end_it(terminal)
    last, status = terminal.wait_end()
    assert status == 0, status
    assert last.count(LEAVE) == 1 and SHOW_CURSOR in last and ENTER not in last, last
    assert terminal.echoes_at_end


def test_stopped(troupe):
    """Ctrl-Z gives the terminal back, and SIGCONT takes it again; so it does behind a stop that nobody was told of."""
    with Gateway() as gateway:
        terminal = Terminal([troupe, "top", "--url", gateway.url, "--interval", "0.2"])
        terminal.wait_for(b"expert-0")
        for _ in range(2):
            assert not terminal.echoes()
            terminal.type(b"\x1a")  # Ctrl-Z
            terminal.wait_stopped()
            terminal.wait_for(SHOW_CURSOR)
            terminal.wait_for(LEAVE)
            assert terminal.echoes()
            os.kill(terminal.pid, signal.SIGCONT)
            terminal.wait_for(ENTER)
            terminal.wait_for(HIDE_CURSOR)
            terminal.wait_for(b"expert-0")
        assert not terminal.echoes()
        os.kill(terminal.pid, signal.SIGSTOP)
        terminal.wait_stopped()
        terminal.set_echo()
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.wait_for(ENTER)
        assert not terminal.echoes()
        terminal.type(b"q")
        last, status = terminal.wait_end()
        assert status == 0 and last.count(LEAVE) == 1, (status, last)
        assert terminal.echoes_at_end


def test_quit(troupe):
    """Ctrl-\\ gives the terminal back, and ends it as the signal does."""
    with Gateway() as gateway:
        terminal = Terminal([troupe, "top", "--url", gateway.url, "--interval", "0.2"])
        terminal.wait_for(b"expert-0")
        terminal.type(b"\x1c")  # Ctrl-backslash
        last, status = terminal.wait_end()
        assert status == -signal.SIGQUIT, status
        assert last.count(LEAVE) == 1 and SHOW_CURSOR in last, last
        assert terminal.echoes_at_end


def test_gateway_away(troupe):
    """It says so, goes on with what it knew, and finds the next gateway."""
    with Gateway() as gateway:
        terminal = Terminal([troupe, "top", "--url", gateway.url, "--interval", "0.2"])
        terminal.wait_for(b"expert-0")
    terminal.wait_for(b"what follows is older")
    terminal.wait_for(b"expert-0")
    with Gateway(port=gateway.port, cluster={**Gateway.CLUSTER, "scheduler": {**Gateway.CLUSTER["scheduler"], "term": 4}}):
        terminal.wait_for(b"figures of")
        terminal.wait_for(b"ready, term 4")
        terminal.type(b"q")
        assert terminal.wait_end()[1] == 0


def test_no_gateway(troupe):
    """--once fails with a sentence; in a terminal it waits, and can be ended all the same."""
    nobody = "http://127.0.0.1:9"
    once = subprocess.run([troupe, "top", "--once", "--url", nobody], capture_output=True, text=True, timeout=PATIENCE)
    assert once.returncode == 1 and nobody in once.stderr and not once.stdout, once
    terminal = Terminal([troupe, "top", "--url", nobody])
    terminal.wait_for(nobody.encode() + b": ")
    terminal.type(b"q")
    last, status = terminal.wait_end()
    assert status == 0 and LEAVE in last


def test_pages_that_fail(troupe):
    """A page that cannot be read is named, and hides no other."""
    with Gateway() as gateway:
        lines = once(troupe, gateway.url)
        assert "placement   imbalance 1.25, planner on, no moves" in lines, lines
        assert "hottest     L0/E0 1.5x on expert-0" in lines, lines
        assert not [line for line in lines if line.startswith("not read")], lines
    with Gateway(placement=None) as gateway:
        lines = once(troupe, gateway.url)
        assert f"not read    placement: {gateway.url}/cluster/placement: status 503 it is away" in lines, lines
        assert "placement   imbalance -, planner not known" in lines, lines
        assert "hottest     L0/E0 1.5x on expert-0" in lines, lines
    with Gateway(history="no JSON") as gateway:
        lines = once(troupe, gateway.url)
        assert any(line.startswith(f"not read    history: {gateway.url}/cluster/history") for line in lines), lines
        assert "placement   imbalance 1.25, planner on, no moves" in lines, lines
        assert "hottest     -" in lines, lines
    with Gateway(hung=["/cluster/placement"]) as gateway:  # it has ten seconds
        terminal = Terminal([troupe, "top", "--url", gateway.url])
        terminal.wait_for(b"hottest     L0/E0 1.5x on expert-0")
        terminal.wait_for(b"not read    placement: ")
        terminal.type(b"q")
        assert terminal.wait_end()[1] == 0


def test_next_scheduler(troupe):
    """Rows of experts are those of the scheduler that answers now: its history is asked for at once, not when it is due."""
    with Gateway() as gateway:
        terminal = Terminal([troupe, "top", "--url", gateway.url, "--interval", "0.2"])
        terminal.wait_for(b"hottest     L0/E0 1.5x on expert-0")
        gateway.pages["/cluster/history?windows=8"] = history_page([[0, 3, 1, 9]])
        asked_before = len(gateway.asked)
        gateway.pages["/cluster"] = {**Gateway.CLUSTER, "scheduler": {**Gateway.CLUSTER["scheduler"], "term": 4}}
        terminal.wait_for(b"term 4")
        terminal.wait_for(b"hottest     L0/E1 1.5x on expert-0")
        terminal.type(b"q")
        assert terminal.wait_end()[1] == 0
        since = gateway.asked[asked_before:]
        history = since.index("/cluster/history?windows=8")
        assert since[:history].count("/cluster") <= 2, since  # one may have been answered before


def main():
    binaries, model, work = sys.argv[1:4]
    troupe = str(pathlib.Path(binaries) / "troupe")
    work = pathlib.Path(work)
    work.mkdir(parents=True, exist_ok=True)
    test_no_gateway(troupe)
    test_pages_that_fail(troupe)
    test_next_scheduler(troupe)
    test_gateway_away(troupe)
    test_wrong_targets(troupe, work)
    test_stopped(troupe)
    test_quit(troupe)
    with Cluster(binaries, "up", model, "--expert-workers", "2", run_dir=work / "run", log=work / "log.txt") as cluster:
        test_once(troupe, cluster)
        test_targets(troupe, cluster)
        test_pipe(troupe, cluster)
        test_terminal(troupe, cluster, lambda terminal: terminal.type(b"q"))
        test_terminal(troupe, cluster, lambda terminal: terminal.type(b"\x03"))  # Ctrl-C
        test_terminal(troupe, cluster, lambda terminal: os.kill(terminal.pid, signal.SIGTERM))


if __name__ == "__main__":
    main()
