#!/usr/bin/env python3
"""Chat templates that hang, swallow memory or recurse cost their own request a 400: one process and a cluster.

usage: hostile_templates_test.py BINARIES MODEL_DIR WORK_DIR

Meanwhile /health is answered, afterwards chats are, and SIGTERM ends a server whose template hangs.
"""
import contextlib
import http.client
import pathlib
import sys
import threading
import time

from cluster import Cluster

CHAT = "/v1/chat/completions"
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
# (template, expected text in the 400). Templates that compute until they are killed occupy the processors: beside them the
# others may not reach their own end within 5 s, especially under a sanitizer.
ENDLESS = [
    ("{{ 9**(9**9) }}", "takes more than 5000 ms"),
    ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes more than 5000 ms"),
]
ENDING = [
    ("{{ 'a' * (7 * 10**9) }}", "more memory"),
    ("{{ 'a' * (65 * 2**20) }}", "over 64 MiB"),
    ("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "RecursionError"),
]


def chat(template, **more):
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "chat_template": template, **more}


def ask(server, template):
    """@returns status and text of the answer"""
    status, _, raw = server.request("POST", CHAT, chat(template))
    return status, raw.decode()


def ask_in_vain(server, template):
    """Of a server that may end before it has read the request"""
    with contextlib.suppress(OSError, http.client.HTTPException):
        ask(server, template)


def health_seconds(server):
    begun = time.monotonic()
    assert server.request("GET", "/health")[0] == 200
    return time.monotonic() - begun


def check_refused(server, templates):
    """All of them at once; @returns seconds that /health took at most meanwhile"""
    answers = {}
    threads = [threading.Thread(target=lambda t=template: answers.__setitem__(t, ask(server, t))) for template, _ in templates]
    slowest = 0.0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        slowest = max(slowest, health_seconds(server))
    for template, said in templates:
        status, text = answers[template]
        assert status == 400 and said in text, (template, status, text)
    return slowest


def check(server):
    assert ask(server, TEMPLATE)[0] == 200
    slowest = max(check_refused(server, templates) for templates in (ENDLESS, ENDING))
    assert slowest < 2, f"/health took {slowest:.2f} s"
    assert ask(server, TEMPLATE)[0] == 200
    print(f"  /health took at most {slowest * 1000:.0f} ms")


def main():
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    flags = ["--served-model-name", "m", "--trust-request-chat-template"]
    with Cluster(binaries, "serve", model, *flags, log=work / "serve.log") as server:
        check(server)
        last = threading.Thread(target=ask_in_vain, args=(server, "{{ 9**(9**9) }}"))
        last.start()
        server.stop()
        last.join()
    with Cluster(binaries, "up", model, *flags, "--expert-workers", "1", "--template-processes", "3", run_dir=work / "run",
                 log=work / "up.log") as server:
        check(server)


if __name__ == "__main__":
    main()
