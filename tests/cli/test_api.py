"""`headway api`: the document without a database, and a server without an engine."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from tests.cli.conftest import PROGRAM, bare_environment


def test_the_document_is_printed_without_a_database(headway: Callable[..., Any]) -> None:
    told = json.loads(headway("api", "--openapi", DATABASE_URL="postgresql://127.0.0.1:9/x").out)
    assert told["openapi"].startswith("3.")
    assert told["paths"]["/api/sync/status"]["get"]["x-headway-need"] == "read"


def test_it_serves_the_page_and_ends_on_a_signal(database: str, tmp_path: Path) -> None:
    settings = {"DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path)}
    with subprocess.Popen(
        [PROGRAM, "api", "--port", "0"],
        env=bare_environment(PYTHONUNBUFFERED="1", **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "Headway serves DATABASE_URL. The page: " in said, said + process.stdout.read()
        url = said.split("The page: ")[1].strip()
        with httpx.Client(trust_env=False, follow_redirects=True) as browser:
            assert browser.get(url).url.path == "/"
            ready = browser.get(httpx.URL(url).join("/readyz"))
            assert ready.json() == {"is_ready": True, "reasons": []}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert "Headway has stopped." in process.stdout.read()
