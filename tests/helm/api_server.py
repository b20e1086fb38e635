"""The part of Kubernetes' API that helm's `lookup` uses: known kinds, and objects by name."""
import contextlib
import http.server
import json
import threading


def root_of(version):
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def pages_of(kinds, objects):
    """kinds: [(apiVersion, kind)]. @returns {path: answer}"""
    versions = sorted({version for version, _ in kinds})
    groups = [{"name": name, "versions": [{"groupVersion": f"{name}/{version}", "version": version}],
               "preferredVersion": {"groupVersion": f"{name}/{version}", "version": version}}
              for name, version in (full.split("/") for full in versions if "/" in full)]
    pages = {"/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
             "/api": {"kind": "APIVersions", "versions": [version for version in versions if "/" not in version]},
             "/apis": {"kind": "APIGroupList", "groups": groups}}
    for version in versions:
        pages[root_of(version)] = {"kind": "APIResourceList", "groupVersion": version, "resources": [
            {"name": f"{kind.lower()}s", "kind": kind, "namespaced": True, "verbs": ["get"]} for of, kind in sorted(kinds) if of == version]}
    for item in objects:
        where = item["metadata"]
        pages[f"{root_of(item['apiVersion'])}/namespaces/{where['namespace']}/{item['kind'].lower()}s/{where['name']}"] = item
    return pages


@contextlib.contextmanager
def api_server(kinds, objects):
    """@returns the address of a server that knows these kinds, [(apiVersion, kind)], and has these objects"""
    pages = pages_of(kinds, objects)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            page = pages.get(self.path.split("?")[0])
            body = json.dumps(page or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}).encode()
            self.send_response(200 if page else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
