"""The API over a real database: queries, actions, tenant isolation and errors."""

import csv
import io
import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from tests.operations.sample import (
    ACME,
    BEST,
    BEST_ONLY,
    HELD,
    HOUR,
    ODD_SKUS,
    PARKED,
    REFUSED,
    SHARED,
    SampleDeployment,
)
from tests.web.api_requests import ApiClient

from headway.operations.export import as_csv, as_lines, chunks
from headway.operations.history import audit
from headway.web.site import create


def ok(response: httpx.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def refused(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == status
    return str(response.json()["detail"])


def test_a_seller_gets_its_own_status_and_an_operator_that_of_all(
    operator: ApiClient, seller: ApiClient
) -> None:
    whole, own = ok(operator.get("/api/sync/status")), ok(seller.get("/api/sync/status"))
    assert (whole["counts"]["total"], own["counts"]["total"]) == (15, 13)
    assert "BEST" not in json.dumps(own)
    assert own["next_call"]["seats_max"] == 10


def test_listings_are_paged_with_a_link_header(
    operator: ApiClient,
) -> None:
    skus: list[str] = []
    address: str | None = "/api/sync/products?limit=4&seller=acme"
    while address:
        response = operator.get(address)
        page = ok(response)
        skus += [item["sku"] for item in page["items"]]
        address = response.links.get("next", {}).get("url")
        assert (address is None) == (page["next_cursor"] is None)
    assert sorted(skus) == sorted({HELD, PARKED, "P-3", SHARED, *ODD_SKUS})
    (one,) = ok(operator.get("/api/sync/products", params={"q": "338109"}))["items"]
    assert (one["sku"], one["held_reason"]) == (HELD, "the price would rise by 127 %")
    (parked,) = ok(operator.get("/api/sync/products", params={"state": "parked"}))["items"]
    assert parked["sku"] == PARKED
    assert "cursor" in refused(operator.get("/api/sync/products", params={"cursor": "x"}), 422)
    assert "no seller" in refused(operator.get("/api/sync/products?seller=nobody"), 404)


@pytest.mark.parametrize("sku", [sku for sku in ODD_SKUS if sku != ".."])
def test_unusual_part_numbers_work_in_every_operation(operator: ApiClient, sku: str) -> None:
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


def test_held_changes_are_listed_and_decided_with_actor_and_reason(
    operator: ApiClient, sample: SampleDeployment
) -> None:
    first = ok(operator.get("/api/sync/held?limit=1"))
    second = ok(operator.get(f"/api/sync/held?limit=1&cursor={first['next_cursor']}"))
    skus = {first["items"][0]["sku"], second["items"][0]["sku"]}
    assert (skus, second["next_cursor"]) == ({HELD, BEST_ONLY}, None)
    body = {"skus": [HELD], "reason": "yearly price list"}
    detail = refused(operator.post("/api/sync/approve", json=body), 422)
    assert detail.startswith("versions: send the version of the change of ")
    body["versions"] = {one["sku"]: one["version"] for one in first["items"] + second["items"]}
    assert ok(operator.post("/api/sync/approve", json=body))["done"] == 1
    (event,) = sample.execute(
        "SELECT actor, error_message FROM sync_audit_log WHERE event_type = 'change_approved'"
    )
    assert event[0].startswith("operator ")
    assert event[1] == "yearly price list"
    assert "give a reason" in refused(operator.post("/api/sync/approve", json={"all": True}), 422)
    both = {"all": True, "skus": [HELD]}
    assert "not both" in refused(operator.post("/api/sync/approve", json=both), 422)
    left = ok(operator.post("/api/sync/approve", json={"all": True, "reason": "why not"}))
    assert (left["done"], left["left"]) == (0, 1)


def test_parts_are_revived_and_rolled_back(operator: ApiClient, sample: SampleDeployment) -> None:
    assert ok(operator.post("/api/sync/revive", json={"skus": [PARKED]}))["done"] == 1
    assert ok(operator.post("/api/sync/revive", json={"all": True}))["listings"] == []
    then = sample.clock.now().isoformat()
    body = {"skus": [HELD], "to": then, "dry_run": True}
    assert ok(operator.post("/api/sync/rollback", json=body))["left"] == 1
    batch = {"since": then, "to": then}
    assert "needs a seller" in refused(operator.post("/api/sync/rollback", json=batch), 422)
    assert ok(operator.post("/api/sync/rollback", json={**batch, "seller": "acme"}))["done"] == 0
    naive = {"skus": [HELD], "to": "2026-01-01T00:00:00"}
    assert refused(operator.post("/api/sync/rollback", json=naive), 422).startswith("to: ")


def test_a_seller_cannot_reach_another_sellers_data(seller: ApiClient) -> None:
    for look in ("products", "explain", "history"):
        detail = refused(seller.get(f"/api/sync/{look}/{quote(BEST_ONLY, safe='')}"), 404)
        assert "best" not in detail
    assert "no listing" in refused(seller.post("/api/sync/reject", json={"skus": [BEST_ONLY]}), 404)
    body = {"skus": [SHARED], "seller": "best"}
    assert "acme" in refused(seller.post("/api/sync/reject", json=body), 403)
    refused(seller.get("/api/sync/products?seller=best"), 403)
    for path in ("/api/limits", "/api/limits/ledger", "/api/quotas", "/api/runs", "/metrics"):
        refused(seller.get(path), 403)
    assert {item["sku"] for item in ok(seller.get("/api/sync/held"))["items"]} == {HELD}
    own = ok(seller.get("/api/alerts"))
    assert "best" not in json.dumps(own)
    assert {"held", "parked"} <= {alert["name"] for alert in own["alerts"]}


def test_parts_are_paused_resumed_and_triggered(
    operator: ApiClient, seller: ApiClient, sample: SampleDeployment
) -> None:
    body = {"kind": "listing", "skus": [SHARED], "seller": "acme", "reason": "recalled"}
    (made,) = ok(operator.post("/api/sync/pause", json=body))["pauses"]
    assert (made["seller"], made["sku"], made["until"]) == ("acme", SHARED, None)
    assert made["actor"].startswith("operator ")
    assert [pause["sku"] for pause in ok(seller.get("/api/sync/pauses"))["pauses"]] == [SHARED]
    assert "paused" in {alert["name"] for alert in ok(seller.get("/api/alerts"))["alerts"]}
    own = body | {"seller": None}
    assert "an operator paused it" in refused(seller.post("/api/sync/resume", json=own), 403)
    assert ok(operator.post("/api/sync/resume", json=body))["done"] == 1
    ok(seller.post("/api/sync/pause", json=own))
    assert ok(seller.post("/api/sync/resume", json=own))["done"] == 1
    assert ok(operator.get("/api/sync/pauses"))["pauses"] == []
    for kind in ("all", "supplier"):
        assert kind in refused(seller.post("/api/sync/pause", json={"kind": kind}), 403)
    late = {"kind": "all", "until": sample.clock.now().isoformat()}
    assert "later than now" in refused(operator.post("/api/sync/pause", json=late), 422)
    assert ok(seller.post("/api/sync/trigger", json={"skus": [ODD_SKUS[0]]}))["done"] == 1
    assert ok(seller.get(f"/api/sync/explain/{ODD_SKUS[0]}"))["listings"][0]["priority"] == "manual"


def test_without_a_body_everything_is_paused_and_resumed(
    operator: ApiClient, seller: ApiClient, sample: SampleDeployment
) -> None:
    refused(seller.post("/api/sync/pause"), 403)
    (made,) = ok(operator.post("/api/sync/pause"))["pauses"]
    assert (made["kind"], made["until"]) == ("all", None)
    soon = (sample.clock.now() + timedelta(minutes=5)).isoformat()
    assert "paused by operator" in refused(
        operator.post("/api/sync/pause", json={"until": soon}), 409
    )
    body = {"until": soon, "replace": True}
    assert ok(operator.post("/api/sync/pause", json=body))["pauses"][0]["until"] is not None
    assert ok(operator.post("/api/sync/resume"))["done"] == 1
    assert ok(operator.get("/api/sync/pauses"))["pauses"] == []


def test_a_job_is_addressed_by_its_name(operator: ApiClient, seller: ApiClient) -> None:
    one = ok(operator.get("/api/jobs/best/etsy/orders"))
    assert (one["name"], one["seller"]) == ("best/etsy/orders", BEST)
    assert ok(operator.post("/api/jobs/best/etsy/orders/run"))["place"] is not None
    assert "not dead" in refused(operator.post("/api/jobs/best/etsy/orders/revive"), 409)
    assert "no such job" in refused(seller.get("/api/jobs/best/etsy/orders"), 404)


def test_limits_are_paged_by_cursor(operator: ApiClient, sample: SampleDeployment) -> None:
    sample.app.limiter.create([sample.app.limit_key, "printify:200"])
    first = operator.get("/api/limits?limit=1")
    assert [item["name"] for item in ok(first)["items"]] == ["boeing"]
    rest = ok(operator.get(first.links["next"]["url"]))
    assert ([item["name"] for item in rest["items"]], rest["next_cursor"]) == (
        ["printify:200"],
        None,
    )
    assert "cursor" in refused(operator.get("/api/limits?cursor=boeing"), 422)


def test_the_timetable_shows_the_calls_of_the_last_and_the_next_day(
    operator: ApiClient, seller: ApiClient, sample: SampleDeployment
) -> None:
    timetable = ok(operator.get("/api/sync/timetable"))
    assert (len(timetable["planned"]), len(timetable["made"]), len(timetable["slots"])) == (
        24,
        24,
        24,
    )
    assert set(timetable["slot_states"]) == {"dormant", "filling"}
    assert sum(timetable["slots"]) == sum(hour["due"] for hour in timetable["planned"]) == 14
    assert sum(hour["calls"] for hour in timetable["planned"]) >= 2
    assert timetable["made"][-1] == {
        "at": timetable["planned"][0]["at"],
        "calls": 0,
        "good": 0,
        "seats": 0,
    }
    assert timetable["now"] == sample.clock.now().isoformat().replace("+00:00", "Z")
    refused(seller.get("/api/sync/timetable"), 403)


def test_the_price_history_of_a_part_is_shown_for_each_seller(
    operator: ApiClient, seller: ApiClient, sample: SampleDeployment
) -> None:
    for days, price in ((40, "100.00"), (9, "150.00"), (3, "125.00")):
        at = sample.clock.now() - timedelta(days=days)
        supplier_quote = {"list_price": price, "quantities": {"Miami": 3}}
        sample.add_event(ACME, SHARED, "price_changed", new_value=supplier_quote, sync_timestamp=at)
    series = ok(operator.get(f"/api/sync/series/{SHARED}"))
    assert [listing["seller"] for listing in series["listings"]] == [ACME, BEST]
    points = series["listings"][0]["points"]
    assert [point["supplier_price"] for point in points] == ["100.00", "150.00", "125.00"]
    assert points[0]["at"] == "2025-12-02T00:00:00Z", "what was known when the span begins"
    assert {point["supplier_quantity"] for point in points} == {3}
    (own,) = ok(seller.get(f"/api/sync/series/{SHARED}?days=5"))["listings"]
    assert (own["seller"], len(own["points"])) == (ACME, 2)
    assert ok(operator.get(f"/api/sync/series/{quote(ODD_SKUS[6], safe='')}"))["listings"]
    refused(seller.get(f"/api/sync/series/{BEST_ONLY}"), 404)


def test_only_an_operator_sees_the_calls_for_a_part(
    operator: ApiClient, seller: ApiClient, sample: SampleDeployment
) -> None:
    now = sample.clock.now()
    sample.execute(
        "INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, finished_at,"
        " lease_until,"
        " status, result, skus, seats_paid) VALUES (gen_random_uuid(), %s, 'w', 1, %s, %s, %s,"
        " 'sent', 'ok', %s, 10)",
        *(sample.app.limit_key, now - HOUR, now - HOUR, now, [SHARED, HELD]),
    )
    (call,) = ok(operator.get(f"/api/sync/calls/{SHARED}"))["calls"]
    assert (call["result"], call["seats_used"], call["seats_paid"]) == ("ok", 2, 10)
    assert ok(operator.get(f"/api/sync/calls/{REFUSED}"))["calls"] == []
    assert ok(seller.get(f"/api/sync/calls/{SHARED}"))["calls"] == []
    refused(seller.get(f"/api/sync/calls/{BEST_ONLY}"), 404)


def test_limits_the_ledger_and_freshness_are_shown(
    operator: ApiClient, sample: SampleDeployment
) -> None:
    sample.app.limiter.create([sample.app.limit_key])
    (limit,) = ok(operator.get("/api/limits"))["items"]
    assert (limit["name"], limit["gauges"][0]["limit"]) == ("boeing", 2)
    assert ok(operator.get("/api/limits/ledger")) == {"items": [], "next_cursor": None}
    assert "no such limit" in refused(operator.get("/api/limits/ledger?name=ebay"), 404)
    sample.app.freshness.sample(sample.clock.now())
    (freshness,) = ok(operator.get("/api/sync/freshness"))["samples"]
    assert freshness["tiers"][0]["total"] == 15


def test_the_audit_log_is_the_same_as_csv_and_jsonl_and_escapes_formulas(
    operator: ApiClient, seller: ApiClient, sample: SampleDeployment
) -> None:
    sample.add_event(ACME, ODD_SKUS[0], "sync_failed", error_message="=cmd|' /C calc'!A0")
    response = operator.get("/api/audit")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    lines = [json.loads(line) for line in operator.get("/api/audit?format=jsonl").text.splitlines()]
    assert [set(line) for line in lines] == [set(rows[0])] * len(rows)
    assert [row["id"] for row in rows] == [line["id"] for line in lines]
    assert {row["error"] for row in rows} == {"", "'=cmd|' /C calc'!A0"}
    assert {line["error"] for line in lines} == {"", "=cmd|' /C calc'!A0"}
    own = operator.get("/api/audit?kind=price_changed&seller=acme").text.splitlines()
    assert len(own) == 2
    assert BEST_ONLY not in seller.get("/api/audit?format=jsonl").text
    later = sample.clock.now().isoformat()
    none = operator.get("/api/audit", params={"until": later}).text
    assert none.splitlines() == [response.text.splitlines()[0]]


def test_an_export_ends_with_an_error_line_if_the_database_fails(
    sample: SampleDeployment,
) -> None:
    sample.execute(
        "INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)"
        " SELECT 'acme', 'A=B', %s, 'sync_failed' FROM generate_series(1, 1500)",
        sample.clock.now(),
    )
    for write in (as_lines, as_csv):
        pieces = chunks([], audit(sample.operator, sku=ODD_SKUS[0]), write, head="")
        read = next(pieces) + next(pieces)
        sample.execute("ALTER TABLE sync_audit_log RENAME TO gone")
        read += "".join(pieces)
        sample.execute("ALTER TABLE gone RENAME TO sync_audit_log")
        lines = read.splitlines()
        assert len(lines) == 1001
        assert "export_stopped" in lines[-1]
        assert "the database refused" in lines[-1]
        assert not [line for line in lines[:-1] if "export_stopped" in line]


def test_a_run_is_requested_followed_and_cancelled(operator: ApiClient) -> None:
    body = {"kind": "simulate", "products": 50, "days": 0.5, "policy": "rolling"}
    response = operator.post("/api/runs", json=body)
    run = ok(response, 202)
    assert (run["status"], run["request"]["products"]) == ("queued", 50)
    assert response.headers["location"] == f"/api/runs/{run['id']}"
    assert ok(operator.get(response.headers["location"]))["progress"] == 0
    assert [item["id"] for item in ok(operator.get("/api/runs"))["items"]] == [run["id"]]
    assert ok(operator.delete(response.headers["location"]))["status"] == "cancelled"
    assert "cancelled" in refused(operator.delete(response.headers["location"]), 409)
    large = {"kind": "simulate", "products": 20_000, "days": 60}
    assert "headway simulate" in refused(operator.post("/api/runs", json=large), 422)
    refused(operator.post("/api/runs", json={"kind": "destroy"}), 422)
    refused(operator.get("/api/runs/nonsense"), 404)
    plan = ok(operator.post("/api/runs", json={"kind": "plan"}), 202)
    assert plan["request"]["products"] >= 1


def test_health_needs_no_key_and_readiness_says_what_is_missing(
    site: FastAPI, sample: SampleDeployment
) -> None:
    nobody = ApiClient(site)
    assert ok(nobody.get("/healthz"))["status"] == "ok"
    assert ok(nobody.get("/readyz")) == {"is_ready": True, "reasons": []}
    sample.execute("DELETE FROM headway_migration WHERE version > 1")
    (reason,) = ok(nobody.get("/readyz"), 503)["reasons"]
    assert "headway db upgrade" in reason


def test_metrics_have_no_seller_or_part_labels_and_count_by_route(
    operator: ApiClient, site: FastAPI
) -> None:
    operator.get(f"/api/sync/explain/{quote(HELD, safe='')}")
    operator.get("/nothing/here")
    response = operator.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    text = response.text
    assert 'route="/api/sync/explain/{sku:path}",status="200"' in text
    assert 'headway_listings{state="parked"} 1.0' in text
    assert "headway_changes_held 2.0" in text
    assert "headway_database_up 1.0" in text
    for word in (HELD, "acme", "best", "nothing/here"):
        assert word not in text
    refused(ApiClient(site).get("/metrics"), 401)


def test_the_setting_for_open_metrics_applies_only_to_this_host(sample: SampleDeployment) -> None:
    settings = sample.app.settings.model_copy(update={"metrics_open": True})
    site = create(
        type(sample.app)(
            **{name: getattr(sample.app, name) for name in sample.app.__dataclass_fields__}
            | {"settings": settings}
        )
    )
    here = ApiClient(site, client=("127.0.0.1", 5000))
    assert here.get("/metrics").status_code == 200
    refused(here.get("/metrics", headers={"X-Forwarded-For": "10.0.0.1"}), 401)
    refused(ApiClient(site, client=("10.0.0.1", 5000)).get("/metrics"), 401)


def test_an_unknown_path_returns_a_problem(operator: ApiClient) -> None:
    assert "nothing here" in refused(operator.get("/api/nothing"), 404)
    response = operator.delete("/api/alerts")
    refused(response, 405)
    assert response.headers["allow"] == "GET"
    refused(operator.get("/api/sync/products/%00"), 422)


TOO_LATE = "9999-12-31T23:59:59-12:00"


def test_a_time_out_of_range_is_refused_and_tick_still_works(
    operator: ApiClient, seller: ApiClient, sample: SampleDeployment
) -> None:
    body = {"kind": "listing", "skus": [ODD_SKUS[0]], "until": TOO_LATE}
    assert refused(seller.post("/api/sync/pause", json=body), 422).startswith("until: the year")
    new = {"name": "late", "role": "reader", "expires_at": TOO_LATE}
    assert refused(operator.post("/api/keys", json=new), 422).startswith("expires_at: the year")
    assert ok(operator.get("/api/sync/pauses"))["pauses"] == []
    ok(operator.get("/api/keys"))
    sample.app.tick().step()


@pytest.mark.parametrize("name", ("a\0b", "a\x1b[31mb", "a\nb", " a", "a\x7f"))
def test_a_key_name_with_control_characters_is_refused(operator: ApiClient, name: str) -> None:
    assert refused(operator.post("/api/keys", json={"name": name, "role": "reader"}), 422)
