#!/usr/bin/env python3
"""Clients over TLS: of `troupe up` itself, and of an nginx in front of it with the shipped configuration.

usage: tls_test.py BINARIES MODEL_DIR WORK_DIR

A stock OpenAI client (npm) trusts the certificate and talks to both. Our own: probes on the plain management port, programs
with --ca-file, certificates that are renewed by SIGHUP under a connection that goes on. Behind nginx: what a stream says comes at
once, pings keep a request alive that waits for longer than nginx is patient, names and addresses arrive.

Exits with 77 (skipped) where nginx is missing or the client cannot be fetched; fails under CI then.
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys

from cluster import Cluster, counters, free_port, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
NGINX_CONF = ROOT / "deploy" / "nginx" / "troupe.conf"
PATIENCE = 8  # seconds that nginx waits for the next byte; a stream's head may take 5
PINGS = 6  # one a second after the head: more than nginx's patience
CLIENT = "127.0.0.2"  # nginx's client address, distinct from its own
ID = "through-the-proxy:1"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)


def make_certificate(folder, name, days=90):
    """@returns (certificate, key)"""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", certificate, "-days", str(days), "-subj", f"/CN={name}", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    key.chmod(0o600)
    return certificate, key


def stock_client(work, url, certificate):
    script = ROOT / "tests" / "protocol" / "openai" / "run.sh"
    # Added to this machine's trusted certificates, not instead of them: npm downloads the client with the same variable.
    trusted = work / "trusted.pem"
    known = os.environ.get("NODE_EXTRA_CA_CERTS")
    trusted.write_text((pathlib.Path(known).read_text() if known else "") + "\n" + certificate.read_text())
    client = subprocess.run(["bash", str(script), str(work / "client"), url], check=False, timeout=240,
                            env={**os.environ, "NODE_EXTRA_CA_CERTS": str(trusted)})
    if client.returncode == 77:
        sys.exit(77)
    client.check_returncode()


def shown(port, trusted):
    """(name, end) of the certificate that a server shows to a new connection."""
    context = ssl.create_default_context(cafile=trusted)
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
        certificate = tls.getpeercert()
    return dict(pair for group in certificate["subject"] for pair in group)["commonName"], certificate["notAfter"]


def program(binaries, *words):
    return subprocess.run([str(binaries / words[0]), *words[1:]], check=False, capture_output=True, text=True, timeout=120)


def own_tls(binaries, model, work):
    first, first_key = make_certificate(work, "first")
    second, second_key = make_certificate(work, "second")
    certificate, key = work / "tls.pem", work / "tls.key"  # the flags' files, which are renewed

    def install(pem, private):
        for source, target in ((pem, certificate), (private, key)):
            fresh = target.with_suffix(".new")
            shutil.copy(source, fresh)  # with its mode
            fresh.rename(target)

    install(first, first_key)
    refused = program(binaries, "troupe", "up", str(model), "--tls-cert-file", str(certificate))
    assert refused.returncode == 2 and "--tls-key-file is missing" in refused.stderr, refused
    refused = program(binaries, "troupe", "up", str(model), "--tls-cert-file", str(certificate), "--tls-key-file", str(second_key))
    assert refused.returncode == 2 and "is not the key of the certificate" in refused.stderr, refused

    management, log = free_port(), work / "up.log"
    run_dir = work / "run"
    run_dir.mkdir(exist_ok=True)
    with Cluster(binaries, "up", model, "--expert-workers", "2", "--served-model-name", "m", "--tls-cert-file", str(certificate),
                 "--tls-key-file", str(key), "--management-port", str(management), run_dir=run_dir, log=log,
                 trusted=first) as cluster:
        url = f"https://127.0.0.1:{cluster.port}"
        assert cluster.said(rf"listening: {url}"), "the log names the URL"
        assert cluster.said(r"tls-certificate: the certificate of CN = first, valid until \d{4}-"), "and the certificate"
        stock_client(work, url, first)

        status = program(binaries, "troupe", "status", "--url", url, "--ca-file", str(first))
        assert status.returncode == 0 and "expert-1" in status.stdout, status
        untrusting = program(binaries, "troupe", "status", "--url", url)
        assert untrusting.returncode != 0 and "--ca-file" in untrusting.stderr, untrusting
        placement = program(binaries, "troupe", "placement", "--url", url, "--insecure")
        assert placement.returncode == 0, placement
        load = program(binaries, "troupe-load", "run", "--url", url, "--ca-file", str(first), "--num-prompts", "5",
                       "--random-output-len", "2:8")
        assert load.returncode == 0, load
        plain = program(binaries, "troupe", "status", "--url", f"http://127.0.0.1:{cluster.port}")
        assert plain.returncode != 0 and "begin the URL with https://" in plain.stderr, plain

        kept = cluster.connect()
        kept.request("GET", "/v1/models")
        assert kept.getresponse().read()
        socket_of_kept = kept.sock
        install(second, second_key)
        cluster.process.send_signal(signal.SIGHUP)
        wait_for("the new certificate", lambda: cluster.said(r"tls-certificate: the certificate of CN = second"))
        wait_for("a connection with it", lambda: trusted_name(cluster.port, second) == "second")
        certificate.write_text("no certificate")
        cluster.process.send_signal(signal.SIGHUP)
        wait_for("what is wrong", lambda: cluster.said(r"reload-failed: --tls-cert-file: \S+ holds no certificate"))
        name, end = shown(cluster.port, second)
        assert name == "second", "the one before stays"
        kept.request("GET", "/v1/models")
        assert kept.getresponse().read() and kept.sock is socket_of_kept, "a connection from before goes on"
        kept.close()
        page = counters(management)
        ends = [value for (name, _), value in page.items() if name == "tls_certificate_not_after_seconds"]
        assert ends == [ssl.cert_time_to_seconds(end)], (ends, end)
        failures = {dict(labels)["reason"]: value for (name, labels), value in page.items() if name == "tls_handshake_failures_total"}
        assert failures["plain_http"] == 1 and failures["protocol"] >= 1, failures
        install(second, second_key)  # for a restarted gateway


def trusted_name(port, trusted):
    with contextlib.suppress(ssl.SSLError):
        return shown(port, trusted)[0]
    return None


@contextlib.contextmanager
def nginx(work, gateway_port, certificate, key):
    """@returns the port of an nginx with the configuration that we ship, but for names, ports and one patience"""
    port, prefix = free_port(), work / "nginx"
    shutil.rmtree(prefix, ignore_errors=True)
    prefix.mkdir()
    text = NGINX_CONF.read_text()
    for ours, theirs in (("server 127.0.0.1:8000;", f"server 127.0.0.1:{gateway_port};"),
                         ("listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;"),
                         ("server_name api.example.com;", "server_name localhost;"),
                         ("/etc/troupe/tls/fullchain.pem", str(certificate)),
                         ("/etc/troupe/tls/privkey.pem", str(key)),
                         ("proxy_read_timeout 3600s;", f"proxy_read_timeout {PATIENCE}s;")):
        assert text.count(ours) == 1, (ours, NGINX_CONF)
        text = text.replace(ours, theirs)
    (prefix / "troupe.conf").write_text(text)
    paths = "".join(f"  {name}_temp_path {prefix}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;\n" if os.geteuid() == 0 else ""
    (prefix / "nginx.conf").write_text(
        f"{user}daemon off;\nmaster_process on;\nworker_processes 1;\npid {prefix}/pid;\nerror_log {prefix}/error.log;\n"
        f"events {{}}\nhttp {{\n  access_log off;\n{paths}  include {prefix}/troupe.conf;\n}}\n")
    process = subprocess.Popen(["nginx", "-p", str(prefix), "-c", str(prefix / "nginx.conf"), "-e", str(prefix / "error.log")],
                               stdin=subprocess.DEVNULL)

    def listens():
        assert process.poll() is None, (prefix / "error.log").read_text()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        return False

    try:
        wait_for("nginx", listens)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def begin_stream(port, trusted, body, headers=None):
    """@returns (connection, response) of a stream that is asked for from CLIENT"""
    context = ssl.create_default_context(cafile=trusted)
    connection = http.client.HTTPSConnection("localhost", port, timeout=120, context=context, source_address=(CLIENT, 0))
    connection.request("POST", "/v1/completions", json.dumps({"stream": True, "ignore_eos": True, **body}).encode(),
                       {"Content-Type": "application/json", **(headers or {})})
    response = connection.getresponse()
    assert response.status == 200, (response.status, response.read())
    return connection, response


def behind_nginx(binaries, model, work):
    certificate, key = make_certificate(work, "proxy")
    access, log = work / "access.log", work / "behind.log"
    access.unlink(missing_ok=True)
    run_dir = work / "run-behind"
    run_dir.mkdir(exist_ok=True)
    with Cluster(binaries, "up", model, "--expert-workers", "2", "--served-model-name", "m", "--max-num-seqs", "1",
                 "--sse-ping-interval", "1", "--trusted-proxies", "127.0.0.1", "--access-log", str(access), "--log-format", "json",
                 run_dir=run_dir, log=log) as cluster, nginx(work, cluster.port, certificate, key) as port:
        stock_client(work, f"https://localhost:{port}", certificate)

        # Far more than a worker computes at a time or during this test: it runs until its client leaves.
        hog, tokens = begin_stream(port, certificate, {"prompt": [[3, 4, 5]] * 4, "n": 128, "max_tokens": 200},
                                   {"X-Forwarded-For": "192.0.2.66", "X-Request-Id": "hog"})
        assert next(line for line in tokens if line.startswith(b"data: ")) != b"data: [DONE]\n", "a token comes while more are computed"
        assert '"request_id":"hog"' not in access.read_text(), "the answer is not over when its first token is here"

        waiting, answer = begin_stream(port, certificate, {"prompt": [6, 7, 8], "max_tokens": 5}, {"X-Request-Id": ID})
        assert answer.headers["X-Request-Id"] == ID and answer.headers["Content-Type"].startswith("text/event-stream"), answer.headers
        pings = 0
        while pings < PINGS:
            line = answer.readline()
            assert line, f"cut after {pings} pings"
            pings += line == b": ping\n"
        tokens.close()
        hog.close()
        rest = answer.read().decode().splitlines()
        assert [line for line in rest if line][-1] == "data: [DONE]" and sum(line.startswith("data: {") for line in rest) == 5, rest
        waiting.close()

        told = wait_for("both in the access log", lambda: {
            line["request_id"]: line for line in map(json.loads, access.read_text().splitlines())
            if line["request_id"] in (ID, "hog")} if access.read_text().count(ID) and access.read_text().count('"hog"') else None)
        # The client's own value in the header is ignored.
        assert told[ID]["client"] == told["hog"]["client"] == CLIENT, told
        assert told[ID]["status"] == 200 and told[ID]["output_tokens"] == 5, told
        assert told["hog"]["output_tokens"] < 4 * 128 * 200, "its client has left, which nginx passes on"

        context = ssl.create_default_context(cafile=certificate)
        for path in ("/metrics", "/cluster", "/v1/../cluster", "//cluster", "/cluster/placement"):
            page = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
            page.request("GET", path)
            assert page.getresponse().status == 404, path
            page.close()


def main():
    binaries, model, work = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    if shutil.which("nginx") is None:
        skip("nginx is missing (deploy/install-deps.sh test)")
    own_tls(binaries, model, work)
    behind_nginx(binaries, model, work)


if __name__ == "__main__":
    main()
