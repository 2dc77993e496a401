"""As much of a Weights & Biases server as a run talks to, and nothing that is kept."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WandbServer:
    """Answers on a free port of this machine until it is stopped.

    Attributes:
        runs: the id in each request that begins or changes a run.
        rows: the logged rows that arrived.
    """

    def __init__(self):
        self.runs, self.rows = [], []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.owner = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        """Refuse every connection from now on."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, question, values):
        """The data of a GraphQL question."""
        if "mutation UpsertBucket" in question:
            self.runs.append(values["name"])
            project = {"id": "p", "name": values["project"], "entity": {"id": "e", "name": "me"}}
            bucket = {
                "id": "b",
                "name": values["name"],
                "displayName": "a",
                "description": "",
                "config": "{}",
                "sweepName": None,
                "historyLineCount": 0,
                "project": project,
            }
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}  # fmt: skip
        if "mutation CreateRunFiles" in question:
            files = [{"name": name, "uploadUrl": f"{self.url}/file"} for name in values["files"]]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
        if "query Viewer" in question:
            viewer = {"id": "v", "username": "me", "entity": "me", "flags": "{}"}
            return {"viewer": {**viewer, "teams": {"edges": []}}}
        return {"model": None} if "query RunResumeStatus" in question else {}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._send({})

    def do_PUT(self):
        self._read()
        self._send({})

    def do_POST(self):
        body, owner = self._read(), self.server.owner
        if self.path == "/graphql":
            asked = json.loads(body)
            self._send({"data": owner.answer(asked["query"], asked.get("variables"))})
            return
        if self.path.endswith("/file_stream"):
            history = json.loads(body).get("files", {}).get("wandb-history.jsonl", {})
            owner.rows += [json.loads(line) for line in history.get("content", [])]
        self._send({})

    def log_message(self, *args):
        pass

    def _read(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _send(self, answer):
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
