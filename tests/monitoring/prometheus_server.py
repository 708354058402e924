"""A real Prometheus and Alertmanager as processes on loopback, and a receiver of their alerts."""

import json
import queue
import subprocess
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Self

import httpx
from tests.conftest import HTTP_TIMEOUT_S
from tests.monitoring.prometheus import Programs

from headway.store.server.launch import HOST, free_port

STOP_S = 10.0
EXPORTED = Path(__file__).parents[2] / "deploy" / "prometheus" / "headway.rules.yml"


class PrometheusServer:
    """Scrapes one address every other second; `notifications` has the alerts of its rules.

    Beside a rule of a test, which fires at once, it loads the rules that we export.
    """

    def __init__(
        self, programs: Programs, folder: Path, *, target: str, rule: dict[str, Any], key: str = ""
    ) -> None:
        self._programs, self._folder = programs, folder
        self._target, self._rule, self._key = target, rule, key
        self._stack = ExitStack()
        self._address = f"{HOST}:{free_port()}"
        self.notifications: queue.Queue[dict[str, Any]] = queue.Queue()

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return the rules of each group as it has loaded them, by name."""
        reply = (
            httpx.get(f"http://{self._address}/api/v1/rules", timeout=HTTP_TIMEOUT_S)
            .raise_for_status()
            .json()
        )
        return {
            group["name"]: {rule["name"]: rule for rule in group["rules"]}
            for group in reply["data"]["groups"]
        }

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            webhook = stack.enter_context(_WebhookServer(self.notifications))
            alertmanager = f"{HOST}:{free_port()}"
            config_file = self._write("alertmanager.yml", _alertmanager_config(webhook.url))
            # An empty address turns clustering off.
            self._run(
                stack,
                self._programs.alertmanager,
                f"--config.file={config_file}",
                f"--storage.path={self._folder / 'alarms'}",
                f"--web.listen-address={alertmanager}",
                "--cluster.listen-address=",
            )
            rules = {"groups": [{"name": "test", "rules": [self._rule]}]}
            files = [self._write("rules.yml", rules), EXPORTED]
            content = _prometheus_config(self._target, self._key, files, alertmanager)
            config = self._write("prometheus.yml", content)
            self._run(
                stack,
                self._programs.prometheus,
                f"--config.file={config}",
                f"--storage.tsdb.path={self._folder / 'series'}",
                f"--web.listen-address={self._address}",
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _write(self, name: str, content: dict[str, Any]) -> Path:
        """Write a YAML file; JSON is a part of YAML."""
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    def _run(self, stack: ExitStack, program: str, *options: str) -> None:
        log = stack.enter_context((self._folder / f"{Path(program).name}.log").open("wb"))
        process = subprocess.Popen([program, *options], stdout=log, stderr=log, cwd=self._folder)
        stack.callback(_end, process)


class _WebhookServer(HTTPServer):
    """Receives the notifications of an Alertmanager."""

    def __init__(self, notifications: queue.Queue[dict[str, Any]]) -> None:
        super().__init__((HOST, 0), _WebhookHandler)
        self.notifications = notifications
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _WebhookHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, _WebhookServer)
        self.server.notifications.put(json.loads(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def _alertmanager_config(url: str) -> dict[str, Any]:
    hook = {"url": url, "send_resolved": True}
    route = {"receiver": "us", "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"}
    return {"route": route, "receivers": [{"name": "us", "webhook_configs": [hook]}]}


def _prometheus_config(
    target: str, key: str, rules: list[Path], alertmanager: str
) -> dict[str, Any]:
    authorization = {"authorization": {"type": "Bearer", "credentials": key}} if key else {}
    job = {"job_name": "headway", "static_configs": [{"targets": [target]}], **authorization}
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "scrape_configs": [job],
        "rule_files": [str(rule_file) for rule_file in rules],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
