"""The command docs, and the site that it serves."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.cli.conftest import Headway
from tests.conftest import HTTP_TIMEOUT_S

from headway.cli import docs
from headway.errors import ConfigError


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<title>Headway</title>")
    return tmp_path


@contextmanager
def serving(site: Path) -> Iterator[httpx.Client]:
    """Serve a site in a thread; yield a client of it."""
    with docs._server(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://{docs.HOST}:{server.server_port}"
        with httpx.Client(base_url=address, timeout=HTTP_TIMEOUT_S, trust_env=False) as client:
            yield client
        server.shutdown()
        thread.join()


def test_the_site_is_served_and_nothing_beside_it(site: Path) -> None:
    (site.parent / "secret").write_text("secret")
    with serving(site) as client:
        assert "<title>Headway" in client.get("/").text
        assert client.get("/no_such.html").status_code == 404
        assert client.get("/%2e%2e/secret").status_code == 404


def test_without_a_built_site_the_error_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="in a checkout run: make docs"):
        docs._server(tmp_path, 0)


def test_a_port_in_use_is_named(site: Path) -> None:
    with docs._server(site, 0) as server, pytest.raises(ConfigError, match="cannot listen on port"):
        docs._server(site, server.server_port)


def test_an_unknown_option_is_refused(headway_in_process: Headway) -> None:
    assert "--port" in headway_in_process("docs", "--port", "99999").error(2)
