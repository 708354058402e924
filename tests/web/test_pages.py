"""Every section of the page, for everybody who may come in; nobody here changes anything."""

import html
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.conftest import START, fresh_database
from tests.operations.room import ACME, HELD, ODD, PARKED, REFUSED, SHARED, THEIRS, furnish
from tests.web.api_requests import Asking
from tests.web.keys import shown

from headway.app import build
from headway.config import Settings
from headway.core.access import Role
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.web.formatting import path
from headway.web.sections import MENU, SECTIONS
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock

PATHS = [each.path for each in MENU]
OWN = [each.path for each in MENU if each.need is None]
PART = f"/parts/{path(HELD)}?seller=acme"


@pytest.fixture(scope="module")
def pool(postgres: EmbeddedServer) -> Iterator[ConnectionPool]:
    """Open one database for all: they only look at it."""
    with fresh_database(postgres) as dsn, open_pool(dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
def site(pool: ConnectionPool, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    room = furnish(pool, VirtualClock(START), tmp_path_factory.mktemp("room"))
    return create(room.app, refresh_s=0)


@pytest.fixture(scope="module")
def operator(site: FastAPI, pool: ConnectionPool) -> Asking:
    return Asking(site, headers=shown(pool))


@pytest.fixture(scope="module")
def seller(site: FastAPI, pool: ConnectionPool) -> Asking:
    return Asking(site, headers=shown(pool, Role.SELLER, ACME))


@pytest.fixture(scope="module")
def reader(site: FastAPI, pool: ConnectionPool) -> Asking:
    return Asking(site, headers=shown(pool, Role.READER))


@pytest.fixture(scope="module")
def newcomer(
    postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asking]:
    """Return an operator before whom nobody has done anything."""
    with fresh_database(postgres) as dsn, open_pool(dsn) as pool:
        settings = Settings(data_dir=tmp_path_factory.mktemp("empty"), policy="split")
        app = build(settings, VirtualClock(START), pool)
        yield Asking(create(app, refresh_s=0), headers=shown(pool))


def read(who: Asking, address: str, status: int = 200) -> str:
    answer = who.get(address)
    assert answer.status_code == status, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.text


def verbs(text: str) -> set[str]:
    """Return the requests that the buttons of a page make."""
    return set(re.findall(r'data-verb="([^"]+)"', html.unescape(text)))


def panel(text: str) -> str:
    """Return what the page shows inside its frame."""
    return text[text.index('<main id="content"') : text.index("</main>")]


@pytest.mark.parametrize("address", (*PATHS, PART, "/parts/nothing-of-the-kind"))
def test_every_section_comes_full_and_whole(operator: Asking, address: str) -> None:
    text = read(operator, address)
    assert text.startswith("<!doctype html>")
    assert text.count("<h1") == 1
    assert text.count("<main") == 1
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids)), "an id names one thing"
    assert "None" not in re.sub(r"<[^>]*>", "", text)


@pytest.mark.parametrize("address", PATHS)
def test_every_section_has_words_for_an_empty_database(newcomer: Asking, address: str) -> None:
    assert read(newcomer, address).count("<h1") == 1


@pytest.mark.parametrize("address", (*OWN, PART))
def test_a_seller_sees_the_own_and_nothing_of_anothers(seller: Asking, address: str) -> None:
    text = read(seller, address)
    assert THEIRS not in text
    assert "best" not in panel(text).replace("best.css", "")


def test_a_seller_is_told_which_sections_are_not_for_sellers(seller: Asking) -> None:
    for section in (each for each in MENU if each.need is not None):
        text = read(seller, section.path, 403)
        assert "is not for you to see" in text
        assert f'href="{section.path}"' not in text, "nor is it in the menu"
        stream = seller.get(f"/live?view={section.name}")
        assert stream.status_code == 403


@pytest.mark.parametrize("address", (*OWN, PART))
def test_a_reader_sees_it_all_and_no_button_that_acts(reader: Asking, address: str) -> None:
    assert verbs(read(reader, address)) == set()


@pytest.mark.parametrize("address", (*PATHS, PART, f"/parts/{path(PARKED)}"))
def test_every_button_makes_a_request_that_the_api_knows(
    site: FastAPI, operator: Asking, address: str
) -> None:
    known = {
        (method.upper(), re.compile(re.sub(r"\{[^}]+\}", "[^?]+", route)))
        for route, methods in site.openapi()["paths"].items()
        for method in methods
    }
    for verb in verbs(read(operator, address)):
        method, _, url = verb.partition(" ")
        assert any(method == each and route.fullmatch(url) for each, route in known), verb


@pytest.mark.parametrize("sku", (*ODD, HELD, PARKED, SHARED))
def test_a_link_to_a_part_leads_to_it_whatever_its_number(operator: Asking, sku: str) -> None:
    text = read(operator, "/parts?seller=acme")
    links = [html.unescape(each) for each in re.findall(r'class="sku" href="([^"]+)"', text)]
    titles = re.findall(r'class="sku" href="[^"]+" title="([^"]+)"', text)
    link = dict(zip((html.unescape(each) for each in titles), links, strict=True))[sku]
    told = html.unescape(read(operator, link))
    assert f"<h1>{sku}</h1>" in told
    assert "There is no such part" not in told


def test_a_part_of_two_sellers_is_shown_for_each(operator: Asking, seller: Asking) -> None:
    both = read(operator, f"/parts/{SHARED}")
    assert "listed by 2 sellers" in both
    assert both.count('class="says"') == 2
    assert read(seller, f"/parts/{SHARED}?seller=best").count('class="says"') == 1


def test_parts_are_found_by_a_piece_and_filtered_by_state(operator: Asking) -> None:
    assert HELD in read(operator, "/parts?q=338109")
    parked = read(operator, "/parts?state=parked")
    assert PARKED in parked
    assert HELD not in parked
    nothing = html.unescape(read(operator, "/parts?q=WF338109%3DK4"))
    assert "No part matches" in nothing
    assert "Did you mean" in nothing
    strange = html.unescape(read(operator, "/parts?cursor=nonsense"))
    assert "That cannot be looked for" in strange


def test_trouble_names_what_is_parked_and_what_a_shop_refused(operator: Asking) -> None:
    text = html.unescape(read(operator, "/trouble"))
    assert "The supplier does not know it" in text
    assert "No such location" in text
    assert REFUSED in text
    assert "POST /api/sync/revive" in verbs(text)


def test_without_a_session_every_section_leads_to_the_login(site: FastAPI) -> None:
    for address in (*PATHS, PART):
        answer = Asking(site).get(address)
        assert answer.status_code == 303
        assert urlsplit(answer.headers["location"]).path == "/login"
    assert Asking(site).get("/live").status_code == 401


def test_a_stream_of_no_section_is_not_found(operator: Asking) -> None:
    assert operator.get("/live?view=nonsense").status_code == 404


def test_every_section_has_a_shortcut_of_its_own() -> None:
    shortcuts = [each.shortcut for each in SECTIONS.values() if each.path]
    assert len(shortcuts) == len(set(shortcuts))
    assert all(shortcuts)


@pytest.mark.parametrize("address", ("/parts/%00", "/parts/x?seller=%00", "/parts?q=%00"))
def test_a_character_that_no_text_holds_is_not_taken_for_an_outage(
    operator: Asking, address: str
) -> None:
    read(operator, address)
