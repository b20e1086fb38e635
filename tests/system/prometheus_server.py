"""A real Prometheus for tests that observe a cluster as operators do. Standard library only."""
import contextlib
import http.client
import json
import subprocess
import time
import urllib.parse

from cluster import free_port, wait_for

PATIENCE = 120  # seconds until Prometheus must have an answer: some scrapes, and the rules after them


class Prometheus:
    """A child that scrapes the processes of a run directory every half second, a context manager that ends it."""

    def __init__(self, run_dir, work, rules):
        """@param work  folder for its files; @param rules  files of rules"""
        self.port = free_port()
        (work / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [{"job_name": "troupe", "file_sd_configs": [{"files": [str(run_dir / "prometheus-targets.json")]}]}]}))
        self.log = open(work / "prometheus.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={work / 'prometheus.yml'}", f"--storage.tsdb.path={work / 'data'}",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def __enter__(self):
        wait_for("Prometheus is ready", self.is_ready, PATIENCE)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()

    def is_ready(self):
        assert self.process.poll() is None, "prometheus has ended: see prometheus.log"
        with contextlib.suppress(OSError):
            return self.get("/-/ready")[0] == 200
        return False

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def query(self, expression):
        """@returns the samples [{"metric", "value"}] now"""
        status, body = self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        answer = json.loads(body)
        assert status == 200 and answer["status"] == "success", f"{expression}: {answer}"
        return answer["data"]["result"]

    def value(self, expression):
        """The one sample of an expression, 0 where there is none."""
        samples = self.query(expression)
        return float(samples[0]["value"][1]) if samples else 0.0

    def wait_for_all(self, expressions):
        """Asks until each of [(where, expression)] has a sample."""
        left = list(dict.fromkeys(expressions))
        end = time.monotonic() + PATIENCE
        while left := [(where, one) for where, one in left if not self.query(one)]:
            assert time.monotonic() < end, "no sample of\n" + "\n".join(f"{where}: {one}" for where, one in left)
            time.sleep(0.5)  # until the next scrape

    def rule_health(self):
        groups = json.loads(self.get("/api/v1/rules")[1])["data"]["groups"]
        return {rule["name"]: (rule["health"], rule.get("lastError", "")) for group in groups for rule in group["rules"]}
