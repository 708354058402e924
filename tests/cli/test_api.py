"""`headway api`: the document without a database, and a server without an engine."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from tests.cli.conftest import start_command
from tests.conftest import HTTP_TIMEOUT_S


def test_the_document_is_printed_without_a_database(headway: Callable[..., Any]) -> None:
    document = json.loads(
        headway("api", "--openapi", DATABASE_URL="postgresql://127.0.0.1:9/x").out
    )
    assert document["openapi"].startswith("3.")
    assert document["paths"]["/api/sync/status"]["get"]["x-headway-need"] == "read"


def test_it_serves_the_page_until_a_signal(database: str, tmp_path: Path) -> None:
    settings = {"DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path)}
    with start_command("api", "--port", "0", **settings) as process:
        assert process.stdout is not None
        output = process.stdout.readline()
        assert "Headway serves DATABASE_URL. The page: " in output, output + process.stdout.read()
        url = output.split("The page: ")[1].strip()
        with httpx.Client(
            timeout=HTTP_TIMEOUT_S, trust_env=False, follow_redirects=True
        ) as browser:
            assert browser.get(url).url.path == "/"
            ready = browser.get(httpx.URL(url).join("/readyz"))
            assert ready.json() == {"is_ready": True, "reasons": []}
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait() == 0, rest
        assert "Headway has stopped." in rest
