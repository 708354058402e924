"""Every section of the page for every role; the tests only read."""

import html
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.conftest import START, fresh_database
from tests.operations.sample import (
    ACME,
    BEST_ONLY,
    HELD,
    ODD_SKUS,
    PARKED,
    REFUSED,
    SHARED,
    create_sample,
)
from tests.web.api_requests import ApiClient
from tests.web.keys import auth_headers

from headway.app import build
from headway.app.accounts import connect_account
from headway.config import Settings
from headway.core.access import Role
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.web.formatting import path
from headway.web.sections import MENU, SECTIONS
from headway.web.site import create
from headway_lab.platforms import ETSY
from headway_lab.virtual_clock import VirtualClock

PATHS = [section.path for section in MENU]
OWN = [section.path for section in MENU if section.need is None]
PART = f"/parts/{path(HELD)}?seller=acme"


@pytest.fixture(scope="module")
def pool(postgres: EmbeddedServer) -> Iterator[ConnectionPool]:
    """Open one database for all tests, which only read it."""
    with fresh_database(postgres) as dsn, open_pool(dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
def site(pool: ConnectionPool, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    sample = create_sample(pool, VirtualClock(START), tmp_path_factory.mktemp("sample"))
    return create(sample.app, refresh_s=0)


@pytest.fixture(scope="module")
def operator(site: FastAPI, pool: ConnectionPool) -> ApiClient:
    return ApiClient(site, headers=auth_headers(pool))


@pytest.fixture(scope="module")
def seller(site: FastAPI, pool: ConnectionPool) -> ApiClient:
    return ApiClient(site, headers=auth_headers(pool, Role.SELLER, ACME))


@pytest.fixture(scope="module")
def reader(site: FastAPI, pool: ConnectionPool) -> ApiClient:
    return ApiClient(site, headers=auth_headers(pool, Role.READER))


@pytest.fixture(scope="module")
def newcomer(
    postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiClient]:
    """Return an operator of an empty database."""
    with fresh_database(postgres) as dsn, open_pool(dsn) as pool:
        settings = Settings(data_dir=tmp_path_factory.mktemp("empty"), policy="split")
        app = build(settings, VirtualClock(START), pool)
        yield ApiClient(create(app, refresh_s=0), headers=auth_headers(pool))


def read(client: ApiClient, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, response.text
    assert response.headers["cache-control"] == "no-store"
    return response.text


def verbs(text: str) -> set[str]:
    """Return the requests that the buttons of a page make."""
    return set(re.findall(r'data-verb="([^"]+)"', html.unescape(text)))


def panel(text: str) -> str:
    """Return what the page shows inside its frame."""
    return text[text.index('<main id="content"') : text.index("</main>")]


@pytest.mark.parametrize("address", (*PATHS, PART, "/parts/nothing-of-the-kind"))
def test_every_section_is_complete(operator: ApiClient, address: str) -> None:
    text = read(operator, address)
    assert text.startswith("<!doctype html>")
    assert text.count("<h1") == 1
    assert text.count("<main") == 1
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids)), "an id names one thing"
    assert "None" not in re.sub(r"<[^>]*>", "", text)


@pytest.mark.parametrize("address", PATHS)
def test_every_section_works_with_an_empty_database(newcomer: ApiClient, address: str) -> None:
    assert read(newcomer, address).count("<h1") == 1


@pytest.mark.parametrize("address", (*OWN, PART))
def test_a_seller_sees_nothing_of_other_sellers(seller: ApiClient, address: str) -> None:
    text = read(seller, address)
    assert BEST_ONLY not in text
    assert "best" not in panel(text).replace("best.css", "")


def test_a_seller_has_no_access_to_the_operators_sections(seller: ApiClient) -> None:
    for section in (section for section in MENU if section.need is not None):
        text = read(seller, section.path, 403)
        assert "You don't have access to" in text
        assert f'href="{section.path}"' not in text, "nor is it in the menu"
        stream = seller.get(f"/live?view={section.name}")
        assert stream.status_code == 403


@pytest.mark.parametrize("address", (*OWN, PART))
def test_a_reader_sees_every_section_without_action_buttons(
    reader: ApiClient, address: str
) -> None:
    assert verbs(read(reader, address)) == set()


@pytest.mark.parametrize("address", (*PATHS, PART, f"/parts/{path(PARKED)}"))
def test_every_button_sends_a_request_that_the_api_has(
    site: FastAPI, operator: ApiClient, address: str
) -> None:
    known = {
        (method.upper(), re.compile(re.sub(r"\{[^}]+\}", "[^?]+", route)))
        for route, methods in site.openapi()["paths"].items()
        for method in methods
    }
    for verb in verbs(read(operator, address)):
        method, _, url = verb.partition(" ")
        assert any(method == name and route.fullmatch(url) for name, route in known), verb


@pytest.mark.parametrize("sku", (*ODD_SKUS, HELD, PARKED, SHARED))
def test_links_to_parts_with_unusual_numbers_work(operator: ApiClient, sku: str) -> None:
    text = read(operator, "/parts?seller=acme")
    links = [html.unescape(href) for href in re.findall(r'class="sku" href="([^"]+)"', text)]
    titles = re.findall(r'class="sku" href="[^"]+" title="([^"]+)"', text)
    link = dict(zip((html.unescape(title) for title in titles), links, strict=True))[sku]
    text_of_part = html.unescape(read(operator, link))
    assert f"<h1>{sku}</h1>" in text_of_part
    assert "There is no such part" not in text_of_part


def test_a_part_of_two_sellers_is_shown_for_each(operator: ApiClient, seller: ApiClient) -> None:
    both = read(operator, f"/parts/{SHARED}")
    assert "listed by 2 sellers" in both
    assert both.count('class="says"') == 2
    assert read(seller, f"/parts/{SHARED}?seller=best").count('class="says"') == 1


def test_parts_are_searched_by_substring_and_filtered_by_state(operator: ApiClient) -> None:
    assert HELD in read(operator, "/parts?q=338109")
    parked = read(operator, "/parts?state=parked")
    assert PARKED in parked
    assert HELD not in parked
    nothing = html.unescape(read(operator, "/parts?q=WF338109%3DK4"))
    assert "No part matches" in nothing
    assert "Did you mean" in nothing
    strange = html.unescape(read(operator, "/parts?cursor=nonsense"))
    assert "Invalid search" in strange


def test_the_trouble_section_lists_parked_and_refused_parts(operator: ApiClient) -> None:
    text = html.unescape(read(operator, "/trouble"))
    assert "The supplier does not know it" in text
    assert "No such location" in text
    assert REFUSED in text
    assert "POST /api/sync/revive" in verbs(text)


def test_without_a_session_every_section_redirects_to_the_login(site: FastAPI) -> None:
    for address in (*PATHS, PART):
        response = ApiClient(site).get(address)
        assert response.status_code == 303
        assert urlsplit(response.headers["location"]).path == "/login"
    assert ApiClient(site).get("/live").status_code == 401


def test_a_stream_of_an_unknown_section_is_not_found(operator: ApiClient) -> None:
    assert operator.get("/live?view=nonsense").status_code == 404


def test_every_section_has_its_own_shortcut() -> None:
    shortcuts = [section.shortcut for section in SECTIONS.values() if section.path]
    assert len(shortcuts) == len(set(shortcuts))
    assert all(shortcuts)


@pytest.mark.parametrize("address", ("/parts/%00", "/parts/x?seller=%00", "/parts?q=%00"))
def test_a_nul_character_in_a_query_is_not_an_outage(operator: ApiClient, address: str) -> None:
    read(operator, address)


def test_the_first_page_shows_only_accounts_where_no_supplier_is_set_up(
    postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock, settings = VirtualClock(START), Settings(data_dir=tmp_path_factory.mktemp("accounts"))
    with fresh_database(postgres) as dsn, open_pool(dsn) as opened:
        page = ApiClient(
            create(build(settings, clock, opened), refresh_s=0), headers=auth_headers(opened)
        )
        assert 'id="next-title"' in page.get("/").text
        connect_account(opened, ACME, "101", platform=ETSY, now=clock.now())
        later = create(build(settings, clock, opened), refresh_s=0)
        shown = ApiClient(later, headers=auth_headers(opened)).get("/").text
    assert 'id="accounts-only"' in shown
    assert "No supplier is set up" in shown
    assert 'id="next-title"' not in shown
    assert 'id="changes-title"' not in shown
