"""The API over a real database: looks, verbs, walls, and how trouble is told."""

import csv
import io
import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from tests.operations.room import ACME, BEST, HELD, HOUR, ODD, PARKED, REFUSED, SHARED, THEIRS, Room
from tests.web.api_requests import Asking

from headway.operations.history import audit
from headway.web.audit import _chunks, _csv, _lines
from headway.web.site import create


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    return str(answer.json()["detail"])


def test_a_seller_is_shown_a_status_of_the_own_and_an_operator_everybodys(
    operator: Asking, seller: Asking
) -> None:
    whole, own = ok(operator.get("/api/sync/status")), ok(seller.get("/api/sync/status"))
    assert (whole["counts"]["total"], own["counts"]["total"]) == (15, 13)
    assert "BEST" not in json.dumps(own)
    assert own["next_call"]["seats_max"] == 10


def test_listings_are_found_page_by_page_and_the_header_says_where_to_go_on(
    operator: Asking,
) -> None:
    seen: list[str] = []
    address: str | None = "/api/sync/products?limit=4&seller=acme"
    while address:
        answer = operator.get(address)
        page = ok(answer)
        seen += [each["sku"] for each in page["items"]]
        address = answer.links.get("next", {}).get("url")
        assert (address is None) == (page["next_cursor"] is None)
    assert sorted(seen) == sorted({HELD, PARKED, "P-3", SHARED, *ODD})
    (one,) = ok(operator.get("/api/sync/products", params={"q": "338109"}))["items"]
    assert (one["sku"], one["held_reason"]) == (HELD, "the price would rise by 127 %")
    (parked,) = ok(operator.get("/api/sync/products", params={"state": "parked"}))["items"]
    assert parked["sku"] == PARKED
    assert "cursor" in refused(operator.get("/api/sync/products", params={"cursor": "x"}), 422)
    assert "no seller" in refused(operator.get("/api/sync/products?seller=nobody"), 404)


@pytest.mark.parametrize("sku", [sku for sku in ODD if sku != ".."])
def test_a_part_number_comes_back_as_it_was_in_every_look_and_verb(
    operator: Asking, sku: str
) -> None:
    word = quote(sku, safe="")
    for look in ("products", "explain"):
        (one,) = ok(operator.get(f"/api/sync/{look}/{word}"))["listings"]
        assert one["sku"] == sku
    assert ok(operator.get(f"/api/sync/history/{word}"))["items"] == []
    moved = ok(operator.put(f"/api/sync/products/{word}/slot", json={"hour": 6, "minute": 30}))
    assert (moved["sku"], moved["new"]["hour_bucket"]) == (sku, 6)
    ruled = ok(operator.post("/api/sync/reject", json={"skus": [sku]}))
    assert ruled["listings"][0]["sku"] == sku
    (event,) = ok(operator.get(f"/api/sync/history/{word}"))["items"]
    assert (event["sku"], event["kind"]) == (sku, "slot_moved")
    assert event["actor"].startswith("operator ")


def test_what_is_held_is_listed_and_decided_with_who_and_why(operator: Asking, room: Room) -> None:
    first = ok(operator.get("/api/sync/held?limit=1"))
    second = ok(operator.get(f"/api/sync/held?limit=1&cursor={first['next_cursor']}"))
    skus = {first["items"][0]["sku"], second["items"][0]["sku"]}
    assert (skus, second["next_cursor"]) == ({HELD, THEIRS}, None)
    body = {"skus": [HELD], "reason": "yearly price list"}
    assert ok(operator.post("/api/sync/approve", json=body))["done"] == 1
    (told,) = room.ask(
        "SELECT actor, error_message FROM sync_audit_log WHERE event_type = 'change_approved'"
    )
    assert told[0].startswith("operator ")
    assert told[1] == "yearly price list"
    assert "say why" in refused(operator.post("/api/sync/approve", json={"all": True}), 422)
    both = {"all": True, "skus": [HELD]}
    assert "not both" in refused(operator.post("/api/sync/approve", json=both), 422)
    left = ok(operator.post("/api/sync/approve", json={"all": True, "reason": "why not"}))
    assert (left["done"], left["left"]) == (0, 1)


def test_parts_are_revived_and_rolled_back(operator: Asking, room: Room) -> None:
    assert ok(operator.post("/api/sync/revive", json={"skus": [PARKED]}))["done"] == 1
    assert ok(operator.post("/api/sync/revive", json={"all": True}))["listings"] == []
    then = room.clock.now().isoformat()
    body = {"skus": [HELD], "to": then, "dry_run": True}
    assert ok(operator.post("/api/sync/rollback", json=body))["left"] == 1
    batch = {"since": then, "to": then}
    assert "needs a seller" in refused(operator.post("/api/sync/rollback", json=batch), 422)
    assert ok(operator.post("/api/sync/rollback", json={**batch, "seller": "acme"}))["done"] == 0
    naive = {"skus": [HELD], "to": "2026-01-01T00:00:00"}
    assert refused(operator.post("/api/sync/rollback", json=naive), 422).startswith("to: ")


def test_a_seller_neither_sees_nor_names_another(seller: Asking) -> None:
    for look in ("products", "explain", "history"):
        said = refused(seller.get(f"/api/sync/{look}/{quote(THEIRS, safe='')}"), 404)
        assert "best" not in said
    assert "no listing" in refused(seller.post("/api/sync/reject", json={"skus": [THEIRS]}), 404)
    body = {"skus": [SHARED], "seller": "best"}
    assert "acme" in refused(seller.post("/api/sync/reject", json=body), 403)
    refused(seller.get("/api/sync/products?seller=best"), 403)
    for path in ("/api/limits", "/api/limits/ledger", "/api/quotas", "/api/runs", "/metrics"):
        refused(seller.get(path), 403)
    assert {each["sku"] for each in ok(seller.get("/api/sync/held"))["items"]} == {HELD}
    own = ok(seller.get("/api/alerts"))
    assert "best" not in json.dumps(own)
    assert {"held", "parked"} <= {each["name"] for each in own["alerts"]}


def test_parts_are_paused_resumed_and_let_go_first(
    operator: Asking, seller: Asking, room: Room
) -> None:
    body = {"kind": "listing", "skus": [SHARED], "seller": "acme", "reason": "recalled"}
    (made,) = ok(operator.post("/api/sync/pause", json=body))["pauses"]
    assert (made["seller"], made["sku"], made["until"]) == ("acme", SHARED, None)
    assert made["actor"].startswith("operator ")
    assert [each["sku"] for each in ok(seller.get("/api/sync/pauses"))["pauses"]] == [SHARED]
    assert "paused" in {each["name"] for each in ok(seller.get("/api/alerts"))["alerts"]}
    own = body | {"seller": None}
    assert "an operator paused it" in refused(seller.post("/api/sync/resume", json=own), 403)
    assert ok(operator.post("/api/sync/resume", json=body))["done"] == 1
    ok(seller.post("/api/sync/pause", json=own))
    assert ok(seller.post("/api/sync/resume", json=own))["done"] == 1
    assert ok(operator.get("/api/sync/pauses"))["pauses"] == []
    for kind in ("all", "supplier"):
        assert kind in refused(seller.post("/api/sync/pause", json={"kind": kind}), 403)
    late = {"kind": "all", "until": room.clock.now().isoformat()}
    assert "later than now" in refused(operator.post("/api/sync/pause", json=late), 422)
    assert ok(seller.post("/api/sync/trigger", json={"skus": [ODD[0]]}))["done"] == 1
    assert ok(seller.get(f"/api/sync/explain/{ODD[0]}"))["listings"][0]["priority"] == "manual"


def test_a_job_goes_by_its_name(operator: Asking, seller: Asking) -> None:
    one = ok(operator.get("/api/jobs/best/etsy/orders"))
    assert (one["name"], one["user_id"]) == ("best/etsy/orders", BEST)
    assert ok(operator.post("/api/jobs/best/etsy/orders/run"))["place"] is not None
    assert "not dead" in refused(operator.post("/api/jobs/best/etsy/orders/revive"), 409)
    assert "no such job" in refused(seller.get("/api/jobs/best/etsy/orders"), 404)


def test_limits_go_on_from_a_cursor_as_all_lists_do(operator: Asking, room: Room) -> None:
    room.app.limiter.create([room.app.limit_key, "printify:200"])
    first = operator.get("/api/limits?limit=1")
    assert [each["name"] for each in ok(first)["items"]] == ["boeing"]
    rest = ok(operator.get(first.links["next"]["url"]))
    assert ([each["name"] for each in rest["items"]], rest["next_cursor"]) == (
        ["printify:200"],
        None,
    )
    assert "cursor" in refused(operator.get("/api/limits?cursor=boeing"), 422)


def test_the_timetable_shows_a_day_of_calls_behind_and_a_day_ahead(
    operator: Asking, seller: Asking, room: Room
) -> None:
    told = ok(operator.get("/api/sync/timetable"))
    assert (len(told["planned"]), len(told["made"]), len(told["slots"])) == (24, 24, 24)
    assert sum(told["slots"]) == sum(each["due"] for each in told["planned"]) == 14
    assert sum(each["calls"] for each in told["planned"]) >= 2
    assert told["made"][-1] == {"at": told["planned"][0]["at"], "calls": 0, "good": 0, "seats": 0}
    assert told["now"] == room.clock.now().isoformat().replace("+00:00", "Z")
    refused(seller.get("/api/sync/timetable"), 403)


def test_the_price_of_a_part_over_time_is_shown_for_each_who_lists_it(
    operator: Asking, seller: Asking, room: Room
) -> None:
    for days, price in ((40, "100.00"), (9, "150.00"), (3, "125.00")):
        at = room.clock.now() - timedelta(days=days)
        told = {"list_price": price, "quantities": {"Miami": 3}}
        room.event(ACME, SHARED, "price_changed", new_value=told, sync_timestamp=at)
    shown = ok(operator.get(f"/api/sync/series/{SHARED}"))
    assert [each["seller"] for each in shown["listings"]] == [ACME, BEST]
    points = shown["listings"][0]["points"]
    assert [each["supplier_price"] for each in points] == ["100.00", "150.00", "125.00"]
    assert points[0]["at"] == "2025-12-02T00:00:00Z", "what was known when the span begins"
    assert {each["supplier_quantity"] for each in points} == {3}
    (own,) = ok(seller.get(f"/api/sync/series/{SHARED}?days=5"))["listings"]
    assert (own["seller"], len(own["points"])) == (ACME, 2)
    assert ok(operator.get(f"/api/sync/series/{quote(ODD[6], safe='')}"))["listings"]
    refused(seller.get(f"/api/sync/series/{THEIRS}"), 404)


def test_the_calls_that_carried_a_part_are_no_sellers(
    operator: Asking, seller: Asking, room: Room
) -> None:
    now = room.clock.now()
    room.ask(
        "INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, finished_at,"
        " lease_until,"
        " status, result, skus, seats_paid) VALUES (gen_random_uuid(), %s, 'w', 1, %s, %s, %s,"
        " 'sent', 'ok', %s, 10)",
        *(room.app.limit_key, now - HOUR, now - HOUR, now, [SHARED, HELD]),
    )
    (call,) = ok(operator.get(f"/api/sync/calls/{SHARED}"))["calls"]
    assert (call["result"], call["seats_used"], call["seats_paid"]) == ("ok", 2, 10)
    assert ok(operator.get(f"/api/sync/calls/{REFUSED}"))["calls"] == []
    assert ok(seller.get(f"/api/sync/calls/{SHARED}"))["calls"] == []
    refused(seller.get(f"/api/sync/calls/{THEIRS}"), 404)


def test_limits_the_ledger_and_freshness_are_shown(operator: Asking, room: Room) -> None:
    room.app.limiter.create([room.app.limit_key])
    (limit,) = ok(operator.get("/api/limits"))["items"]
    assert (limit["name"], limit["gauges"][0]["limit"]) == ("boeing", 2)
    assert ok(operator.get("/api/limits/ledger")) == {"items": [], "next_cursor": None}
    assert "no such limit" in refused(operator.get("/api/limits/ledger?name=ebay"), 404)
    room.app.freshness.sample(room.clock.now())
    (sample,) = ok(operator.get("/api/sync/freshness"))["samples"]
    assert sample["tiers"][0]["total"] == 15


def test_the_audit_is_the_same_both_ways_and_no_cell_is_a_formula(
    operator: Asking, seller: Asking, room: Room
) -> None:
    room.event(ACME, ODD[0], "sync_failed", error_message="=cmd|' /C calc'!A0")
    answer = operator.get("/api/audit")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    lines = [json.loads(line) for line in operator.get("/api/audit?format=jsonl").text.splitlines()]
    assert [set(each) for each in lines] == [set(rows[0])] * len(rows)
    assert [each["id"] for each in rows] == [each["id"] for each in lines]
    assert {each["error"] for each in rows} == {"", "'=cmd|' /C calc'!A0"}
    assert {each["error"] for each in lines} == {"", "=cmd|' /C calc'!A0"}
    own = operator.get("/api/audit?kind=price_changed&seller=acme").text.splitlines()
    assert len(own) == 2
    assert THEIRS not in seller.get("/api/audit?format=jsonl").text
    later = room.clock.now().isoformat()
    none = operator.get("/api/audit", params={"until": later}).text
    assert none.splitlines() == [answer.text.splitlines()[0]]


def test_an_export_whose_database_goes_away_says_so_in_its_last_line(room: Room) -> None:
    room.ask(
        "INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)"
        " SELECT 'acme', 'A=B', %s, 'sync_failed' FROM generate_series(1, 1500)",
        room.clock.now(),
    )
    for write in (_lines, _csv):
        chunks = _chunks([], audit(room.operator, sku=ODD[0]), write, head="")
        read = next(chunks) + next(chunks)
        room.ask("ALTER TABLE sync_audit_log RENAME TO gone")
        read += "".join(chunks)
        room.ask("ALTER TABLE gone RENAME TO sync_audit_log")
        lines = read.splitlines()
        assert len(lines) == 1001
        assert "export_stopped" in lines[-1]
        assert "the database refused" in lines[-1]
        assert not [line for line in lines[:-1] if "export_stopped" in line]


def test_a_run_is_asked_for_followed_and_cancelled(operator: Asking) -> None:
    body = {"kind": "simulate", "products": 50, "days": 0.5, "policy": "rolling"}
    answer = operator.post("/api/runs", json=body)
    run = ok(answer, 202)
    assert (run["status"], run["request"]["products"]) == ("queued", 50)
    assert answer.headers["location"] == f"/api/runs/{run['id']}"
    assert ok(operator.get(answer.headers["location"]))["progress"] == 0
    assert [each["id"] for each in ok(operator.get("/api/runs"))["items"]] == [run["id"]]
    assert ok(operator.delete(answer.headers["location"]))["status"] == "cancelled"
    assert "cancelled" in refused(operator.delete(answer.headers["location"]), 409)
    large = {"kind": "simulate", "products": 20_000, "days": 60}
    assert "headway simulate" in refused(operator.post("/api/runs", json=large), 422)
    refused(operator.post("/api/runs", json={"kind": "destroy"}), 422)
    refused(operator.get("/api/runs/nonsense"), 404)
    plan = ok(operator.post("/api/runs", json={"kind": "plan"}), 202)
    assert plan["request"]["products"] >= 1


def test_health_needs_no_key_and_readiness_says_what_is_missing(site: FastAPI, room: Room) -> None:
    nobody = Asking(site)
    assert ok(nobody.get("/healthz"))["status"] == "ok"
    assert ok(nobody.get("/readyz")) == {"is_ready": True, "reasons": []}
    room.ask("DELETE FROM headway_migration WHERE version > 1")
    (reason,) = ok(nobody.get("/readyz"), 503)["reasons"]
    assert "headway db upgrade" in reason


def test_metrics_name_no_part_and_no_seller_and_count_by_route(
    operator: Asking, site: FastAPI
) -> None:
    operator.get(f"/api/sync/explain/{quote(HELD, safe='')}")
    operator.get("/nothing/here")
    answer = operator.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.text
    assert 'route="/api/sync/explain/{sku:path}",status="200"' in text
    assert 'headway_listings{state="parked"} 1.0' in text
    assert "headway_changes_held 2.0" in text
    assert "headway_database_up 1.0" in text
    for word in (HELD, "acme", "best", "nothing/here"):
        assert word not in text
    refused(Asking(site).get("/metrics"), 401)


def test_metrics_are_open_on_this_host_only_if_so_set(room: Room) -> None:
    settings = room.app.settings.model_copy(update={"metrics_open": True})
    site = create(
        type(room.app)(
            **{name: getattr(room.app, name) for name in room.app.__dataclass_fields__}
            | {"settings": settings}
        )
    )
    here = Asking(site, client=("127.0.0.1", 5000))
    assert here.get("/metrics").status_code == 200
    refused(here.get("/metrics", headers={"X-Forwarded-For": "10.0.0.1"}), 401)
    refused(Asking(site, client=("10.0.0.1", 5000)).get("/metrics"), 401)


def test_what_is_not_there_is_told_as_a_problem_too(operator: Asking) -> None:
    assert "nothing here" in refused(operator.get("/api/nothing"), 404)
    answer = operator.delete("/api/alerts")
    refused(answer, 405)
    assert answer.headers["allow"] == "GET"
    refused(operator.get("/api/sync/products/%00"), 422)


TOO_LATE = "9999-12-31T23:59:59-12:00"


def test_an_instant_that_nobody_could_read_back_is_refused_and_stops_no_round(
    operator: Asking, seller: Asking, room: Room
) -> None:
    wish = {"kind": "listing", "skus": [ODD[0]], "until": TOO_LATE}
    assert refused(seller.post("/api/sync/pause", json=wish), 422).startswith("until: the year")
    new = {"name": "late", "role": "reader", "expires_at": TOO_LATE}
    assert refused(operator.post("/api/keys", json=new), 422).startswith("expires_at: the year")
    assert ok(operator.get("/api/sync/pauses"))["pauses"] == []
    ok(operator.get("/api/keys"))
    room.app.tick().step()


@pytest.mark.parametrize("name", ("a\0b", "a\x1b[31mb", "a\nb", " a", "a\x7f"))
def test_a_key_has_a_name_that_a_person_can_read(operator: Asking, name: str) -> None:
    assert refused(operator.post("/api/keys", json={"name": name, "role": "reader"}), 422)
