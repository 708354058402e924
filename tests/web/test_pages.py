"""Every section of the page: in every state, for everybody who may come in."""

import html
import json
import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.app.room import ACME, HELD, ODD, PARKED, REFUSED, SHARED, THEIRS, Room
from tests.web.asking import Asking
from tests.web.keys import shown

from headway.app import build
from headway.clock import SystemClock, VirtualClock
from headway.config import Settings
from headway.core.access import Role
from headway.core.pauses import PauseKind
from headway.store.processes import Presence, Processes
from headway.web.looks import MENU, SECTIONS
from headway.web.site import create
from headway.web.words import path

PATHS = [each.path for each in MENU]
OWN = [each.path for each in MENU if each.need is None]
PART = f"/parts/{path(HELD)}?seller=acme"


@pytest.fixture
def reader(site: FastAPI, pool: ConnectionPool) -> Asking:
    return Asking(site, headers=shown(pool, Role.READER))


def read(who: Asking, address: str, status: int = 200) -> str:
    answer = who.get(address)
    assert answer.status_code == status, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.text


def verbs(text: str) -> set[str]:
    """Return the requests that the buttons of a page make."""
    return set(re.findall(r'data-verb="([^"]+)"', html.unescape(text)))


def board(text: str) -> str:
    """Return what the page shows inside its frame."""
    return text[text.index('<main id="board"') : text.index("</main>")]


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
def test_every_section_has_words_for_an_empty_database(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, address: str
) -> None:
    app = build(Settings(data_dir=tmp_path, policy="split"), clock, pool)
    text = read(Asking(create(app, refresh_s=0), headers=shown(pool)), address)
    assert text.count("<h1") == 1


@pytest.mark.parametrize("address", (*OWN, PART))
def test_a_seller_sees_the_own_and_nothing_of_anothers(seller: Asking, address: str) -> None:
    text = read(seller, address)
    assert THEIRS not in text
    assert "best" not in board(text).replace("best.css", "")


def test_a_seller_is_told_which_sections_are_not_for_sellers(seller: Asking) -> None:
    for section in (each for each in MENU if each.need is not None):
        text = read(seller, section.path, 403)
        assert "is not for you to see" in text
        assert f'href="{section.path}"' not in text, "nor is it in the menu"
        stream = seller.get(f"/live?view={section.name}")
        assert stream.status_code == 403


def test_a_seat_of_another_seller_says_so_and_no_more(
    room: Room, operator: Asking, seller: Asking
) -> None:
    room.ask("UPDATE product_sync_schedule SET turn = 'manual' WHERE user_id = 'best'")
    assert THEIRS in read(operator, "/")
    own = html.unescape(read(seller, "/"))
    assert "another seller's part" in own
    assert "Last calls" not in own, "the ledger is everybody's"


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


def test_a_button_carries_what_its_request_needs(operator: Asking) -> None:
    bodies = [
        json.loads(html.unescape(each))
        for each in re.findall(
            r'data-verb="POST /api/sync/approve" data-body="([^"]+)"', read(operator, "/changes")
        )
    ]
    assert {"skus": [HELD], "seller": "acme"} in bodies
    answer = operator.post("/api/sync/approve", json=bodies[-1])
    assert answer.status_code == 200
    assert answer.json()["listings"][0]["is_done"]


def test_a_pause_is_on_every_section_with_who_since_and_until(
    room: Room, operator: Asking, seller: Asking, reader: Asking
) -> None:
    until = room.clock.now() + timedelta(hours=2)
    room.desk().pause(PauseKind.ALL, until=until, reason="stock-taking")
    for address in [*PATHS, PART]:
        text = read(operator, address)
        assert 'data-paused="yes"' in text
        assert "Paused: everything." in text
        assert "By tester" in text
        assert "stock-taking" in text
        assert "POST /api/sync/resume" in board(text)
    for who in (seller, reader):
        text = read(who, "/")
        assert "Paused: everything." in text
        assert "POST /api/sync/resume" not in board(text)


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


def test_keys_are_listed_without_the_keys_themselves(
    operator: Asking, pool: ConnectionPool
) -> None:
    secret = shown(pool, Role.SELLER, ACME)["Authorization"].removeprefix("Bearer ")
    text = read(operator, "/keys")
    assert "seller of acme" in text
    assert secret not in text


def test_who_runs_is_shown_with_what_it_does_and_who_is_silent_stands_out(
    operator: Asking, seller: Asking, pool: ConnectionPool
) -> None:
    assert 'id="processes"' not in read(operator, "/"), "nobody said so yet"
    processes = Processes(pool)
    for number, verb in enumerate(("worker", "api")):
        processes.see(Presence(verb=verb, settings={}, host="one", pid=number), SystemClock())
    with pool.connection() as connection:
        connection.execute("UPDATE processes SET seen_at = seen_at - interval '80 s' WHERE pid = 0")
    text = re.sub(r"\s+", " ", board(read(operator, "/")))
    card = text[text.index('id="processes"') :]
    assert "<span>worker one:0</span>" in card
    assert "<span>page and API</span>" in card
    assert card.count('class="num bad"') == 1
    assert 'id="processes"' not in read(seller, "/")


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
