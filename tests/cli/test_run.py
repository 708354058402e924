"""The command run."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.conftest import start_command
from tests.conftest import HTTP_TIMEOUT_S

from headway.clock import SystemClock
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import serve

DOCUMENTS = Path(__file__).parents[1] / "documents"
ACCESS = {
    "HEADWAY_BOEING_CLIENT_ID": "me",
    "HEADWAY_BOEING_CLIENT_SECRET": "secret-1",
    "HEADWAY_BOEING_USERNAME": "user",
    "HEADWAY_BOEING_PASSWORD": "secret-2",
    "HEADWAY_BOEING_URL": "http://127.0.0.1:9",
}


def test_missing_credentials_are_named_and_nothing_starts(
    headway_in_process: Callable[..., Any],
) -> None:
    message = headway_in_process("run", "--port", "0", HEADWAY_BOEING_USERNAME="me").error(2)
    assert "HEADWAY_BOEING_CLIENT_ID" in message


def test_the_documents_environment_starts_it_as_it_stands(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DOCUMENTS / "plan_v2.env").read_text()
    (tmp_path / ".env").write_text(text.replace("postgresql://user:pass@host:5432/db", database))
    monkeypatch.chdir(tmp_path)
    with start_command("run", "--port", "0", HEADWAY_DATA_DIR=str(tmp_path)) as process:
        assert process.stdout is not None
        lines = []
        while not lines or "The page: " not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        url = lines[-1].split("The page: ")[1].strip()
        assert httpx.get(httpx.URL(url).join("/healthz"), trust_env=False).status_code == 200
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait() == 0, rest
    replaced = [line.partition(":")[0] for line in lines if line.startswith("SYNC_")]
    assert len(replaced) == 6, "one line for each setting that something else replaces"
    assert any("No credentials of the supplier are set" in line for line in lines)


@pytest.mark.parametrize("signal_number", (signal.SIGINT, signal.SIGTERM))
def test_it_serves_the_page_and_other_commands_until_a_signal(
    headway: Callable[..., Any], data_dir: Path, signal_number: signal.Signals
) -> None:
    settings = {**ACCESS, "HEADWAY_DATA_DIR": str(data_dir)}
    with start_command("run", "--port", "0", **settings) as process:
        assert process.stdout is not None
        output = process.stdout.readline()
        assert "The page: " in output, output + process.stdout.read()
        url = output.split("The page: ")[1].strip()
        with httpx.Client(
            timeout=HTTP_TIMEOUT_S, trust_env=False, follow_redirects=True
        ) as browser:
            assert browser.get(url).url.path == "/"
            assert browser.get(httpx.URL(url).join("/api/sync/status")).status_code == 200
        status = headway("status", "--json", **settings)
        assert status.code == 0, status.err
        process.send_signal(signal_number)
        rest = process.stdout.read()
        assert process.wait() == 0, rest
    assert rest.strip().endswith("Headway has stopped.")
    assert "secret-" not in rest


def test_a_shop_that_is_connected_while_it_runs_is_read(
    headway: Callable[..., Any], data_dir: Path, tmp_path: Path
) -> None:
    setup = ShopSetup(domain="acme.myshopify.com", access_token="hunter2")
    shops = ShopifySimulator(SystemClock(), shops=[setup])
    (tmp_path / "token").write_text(setup.access_token)
    with serve(shops.handle, SystemClock()) as server:
        settings = {
            **ACCESS,
            "HEADWAY_DATA_DIR": str(data_dir),
            "HEADWAY_SHOPIFY_URL": f"{server.url}/{{shop}}",
        }
        with start_command("run", "--port", "0", **settings) as process:
            assert process.stdout is not None
            assert "The page: " in process.stdout.readline()
            connect = (
                "connect",
                setup.domain,
                "--seller",
                "acme",
                "--no-check",
                "--token-file",
                "token",
            )
            assert headway(*connect, **settings).code == 0
            # A push may have failed because it came before the token was stored.
            output = ""
            while "push: acme.myshopify.com: locations of 0\n" not in output:
                line = process.stdout.readline()
                assert line, output
                output += line
            (shop,) = headway("shops", "--json", **settings).object()
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
            assert process.wait() == 0, rest
    assert shop["locations"] == ["Chicago", "Dallas"]
    assert "hunter2" not in output + rest
