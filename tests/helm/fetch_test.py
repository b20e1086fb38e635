#!/usr/bin/python3
"""troupe-fetch with a local hub that cuts connections off, sends wrong bytes, and asks for a token.

usage: fetch_test.py BINARIES MODEL_DIR WORK_DIR CACHE   (only WORK_DIR is used)
"""
import hashlib
import http.server
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "image" / "troupe-fetch"
WORK = pathlib.Path(sys.argv[3])
WEIGHTS = random.Random(1).randbytes(3 << 20)
FILES = {"config.json": b'{"model_type": "m"}', "tokenizer.json": b"{}", "model.safetensors": WEIGHTS, "README.md": b"no",
         "pytorch_model.bin": b"no"}
COMMIT = "c" * 40


def entry(path, content):
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    told = {"type": "file", "path": path, "size": len(content), "oid": git}
    return {**told, "lfs": {"oid": hashlib.sha256(content).hexdigest()}} if path.endswith(".safetensors") else told


class Hub(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.cut, self.spoilt, self.token, self.lock = [], 0, 0, None, threading.Lock()
        self.may_send = threading.Event()
        self.may_send.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def tell(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        return body

    def do_GET(self):
        hub = self.server
        with hub.lock:
            hub.asked.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        if hub.token and not self.path.startswith("/storage") and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.wfile.write(self.tell(b"", 401))
        elif self.path == "/api/models/org/m/revision/main":
            self.wfile.write(self.tell(json.dumps({"sha": COMMIT}).encode()))
        elif self.path == f"/api/models/org/m/revision/{COMMIT}":
            self.wfile.write(self.tell(json.dumps({"sha": COMMIT}).encode()))
        elif self.path == f"/api/models/org/m/tree/{COMMIT}":
            page = [entry(path, FILES[path]) for path in list(FILES)[:2]] + [{"type": "directory", "path": "original"}]
            link = f'<{hub.url}{self.path}?cursor=2>; rel="next"'
            self.wfile.write(self.tell(json.dumps(page).encode(), Link=link))
        elif self.path == f"/api/models/org/m/tree/{COMMIT}?cursor=2":
            self.wfile.write(self.tell(json.dumps([entry(path, FILES[path]) for path in list(FILES)[2:]]).encode()))
        elif self.path == f"/org/m/resolve/{COMMIT}/model.safetensors":
            self.tell(b"", 302, Location=f"http://localhost:{hub.server_address[1]}/storage/model.safetensors")
        elif self.path.startswith(f"/org/m/resolve/{COMMIT}/") or self.path.startswith("/storage/"):
            self.send(FILES[self.path.rsplit("/", 1)[1]])
        else:
            self.wfile.write(self.tell(b"", 404))

    def send(self, content):
        hub = self.server
        first = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        wanted = self.tell(content[first:], 206 if first else 200)
        if len(content) > 1000:
            hub.may_send.wait(30)
            with hub.lock:
                is_cut, hub.cut = hub.cut > 0, max(0, hub.cut - 1)
                is_spoilt, hub.spoilt = hub.spoilt > 0, max(0, hub.spoilt - 1)
            if is_cut:
                self.wfile.write(wanted[:len(wanted) // 2])
                self.close_connection = True
                return
            if is_spoilt:
                wanted = bytes(len(wanted))
        self.wfile.write(wanted)


class Fetch(unittest.TestCase):
    def setUp(self):
        self.hub, self.folder = Hub(), WORK / self.id().rsplit(".", 1)[1]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)

    def start(self, *argv, **variables):
        return subprocess.Popen([sys.executable, SCRIPT, *map(str, argv)], stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "HF_ENDPOINT": self.hub.url, **variables})

    def get(self, *argv, source="org/m", **variables):
        process = self.start("get", source, self.folder, *argv, **variables)
        said = process.communicate(timeout=120)[1]
        return process.returncode, said

    def ranges(self):
        return [wanted for path, wanted, _ in self.hub.asked if path.startswith("/storage")]

    def test_brings_what_a_model_needs_once(self):
        self.assertEqual(self.get()[0], 0)
        self.assertEqual({path.name for path in self.folder.iterdir() if not path.name.startswith(".")},
                         {"config.json", "tokenizer.json", "model.safetensors"})
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)
        asked = len(self.hub.asked)
        self.assertEqual(self.get(), (0, ""))
        self.assertEqual(len(self.hub.asked), asked, "a complete folder needs no hub")

    def test_goes_on_where_it_was_cut_off(self):
        self.hub.cut = 2
        status, said = self.get()
        self.assertEqual(status, 0, said)
        self.assertEqual(self.ranges(), [None, f"bytes={len(WEIGHTS) // 2}-", f"bytes={len(WEIGHTS) * 3 // 4}-"])
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)

    def test_goes_on_after_its_process_was_killed(self):
        self.folder.mkdir(parents=True)
        (self.folder / "model.safetensors.part").write_bytes(WEIGHTS[:1 << 20])
        self.assertEqual(self.get()[0], 0)
        self.assertEqual(self.ranges(), [f"bytes={1 << 20}-"])
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)

    def test_takes_no_file_whose_checksum_is_wrong(self):
        self.hub.spoilt = 1
        status, said = self.get()
        self.assertEqual(status, 0, said)
        self.assertIn("model.safetensors: its checksum is not the hub's", said)
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)

    def test_a_gateway_needs_no_weights(self):
        self.assertEqual(self.get("--without-weights")[0], 0)
        self.assertEqual(self.ranges(), [])
        self.assertEqual((self.folder / "config.json").read_bytes(), FILES["config.json"])

    def test_two_at_once_download_once(self):
        self.hub.may_send.clear()
        first = self.start("get", "org/m", self.folder)
        while not self.ranges():
            self.assertIsNone(first.poll())
        second = self.start("get", "org/m", self.folder)
        self.assertIn("another process fills", second.stderr.readline())
        waiting = self.start("wait", self.folder)
        self.hub.may_send.set()
        for process in (first, second, waiting):
            self.assertEqual((process.wait(60), process.stderr.close())[0], 0)
        self.assertEqual(len(self.ranges()), 1)

    def test_says_what_is_wrong(self):
        status, said = self.get(source="org/other")
        self.assertEqual(status, 1)
        self.assertRegex(said, "org/other/revision/main: status 404; is the name right")
        self.hub.token = "secret"
        status, said = self.get()
        self.assertEqual(status, 1)
        self.assertIn("status 401; is it public? give a token (HF_TOKEN_FILE)", said)
        process = self.start("wait", self.folder / "none", "--timeout", "0")
        self.assertIn("was not complete within 0.0 s", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 1)

    def test_the_token_is_the_hubs_alone(self):
        self.hub.token = "secret"
        self.folder.mkdir(parents=True)
        token = WORK / "token"
        token.write_text("secret\n", encoding="utf-8")
        self.assertEqual(self.get(HF_TOKEN_FILE=str(token))[0], 0)
        self.assertEqual({right for path, _, right in self.hub.asked if path.startswith("/storage")}, {None})
        self.assertEqual({right for path, _, right in self.hub.asked if not path.startswith("/storage")}, {"Bearer secret"})


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])
