#!/usr/bin/python3
"""troupe-health asks the port that its variables name, by TLS if the API uses it.

usage: health_test.py BINARIES MODEL_DIR WORK_DIR CACHE   (only WORK_DIR is used)
"""
import contextlib
import http.server
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import threading
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "image" / "troupe-health"
WORK = pathlib.Path(sys.argv[3])


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send_response(self.server.status if self.path == "/health" else 404)
        self.end_headers()


@contextlib.contextmanager
def server(status=200, tls=None):
    """@returns the port of a process that answers /health with this status"""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.status = status
        if tls:
            made.socket = tls.wrap_socket(made.socket, server_side=True)
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield str(made.server_address[1])
        made.shutdown()
        thread.join()


def health(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TROUPE_")}
    done = subprocess.run([sys.executable, SCRIPT], env={**kept, **variables}, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


class Health(unittest.TestCase):
    def test_asks_the_port_that_is_open_to_it(self):
        with server() as well, server(503) as ill:
            self.assertEqual(health(TROUPE_PORT=well), (0, ""))
            self.assertEqual(health(TROUPE_PORT=ill), (1, f"port {ill}: status 503\n"))
            self.assertEqual(health(TROUPE_METRICS_PORT=well, TROUPE_PORT=ill)[0], 0)
            self.assertEqual(health(TROUPE_MANAGEMENT_PORT=well, TROUPE_METRICS_PORT=ill, TROUPE_PORT=ill)[0], 0)
        self.assertEqual(health(TROUPE_PORT=well)[0], 1, "nobody listens any more")

    @unittest.skipUnless(shutil.which("openssl"), "openssl makes the certificate")
    def test_a_gateway_that_speaks_tls(self):
        WORK.mkdir(parents=True, exist_ok=True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=api.example.com", "-keyout", WORK / "key", "-out", WORK / "cert"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(WORK / "cert", WORK / "key")
        with server(tls=context) as port:
            self.assertEqual(health(TROUPE_PORT=port, TROUPE_TLS_CERT_FILE="/cert"), (0, ""))
            self.assertEqual(health(TROUPE_PORT=port)[0], 1)
            with server() as plain:
                self.assertEqual(health(TROUPE_MANAGEMENT_PORT=plain, TROUPE_PORT=port, TROUPE_TLS_CERT_FILE="/cert")[0], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
