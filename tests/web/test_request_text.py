"""Requests that no program of ours sends: each is refused, and the field is named."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.web.api_requests import ApiClient

from headway.web.site import HEADERS

DEEP = "[" * 100_000 + "]" * 100_000


def detail(answer: httpx.Response) -> str:
    """Return the detail of a malformed request's answer."""
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["detail"])


@pytest.mark.parametrize(
    "address",
    (
        "/api/sync/held", "/api/sync/products", "/api/accounts", "/api/jobs", "/api/shops",
        "/api/sync/pauses", "/api/audit", "/api/removals",
    ),
)  # fmt: skip
def test_a_seller_that_cannot_be_stored_is_named(operator: ApiClient, address: str) -> None:
    assert detail(operator.get(f"{address}?seller=%00")).startswith("seller: ")


@pytest.mark.parametrize(
    ("address", "field"),
    (
        ("/api/sync/products?q=a%00b", "q"),
        ("/api/sync/status?supplier=%00", "supplier"),
        ("/api/audit?kind=price_changed&kind=%00", "kind"),
        ("/api/limits?cursor=%00", "cursor"),
        ("/api/jobs?platform=%00", "platform"),
    ),
)
def test_any_field_of_an_address_is_named(operator: ApiClient, address: str, field: str) -> None:
    assert detail(operator.get(address)).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("address", "body", "field"),
    (
        ("/api/sync/pause", {"kind": "seller", "seller": "a\0"}, "seller"),
        ("/api/sync/trigger", {"skus": ["A", "B\0"]}, "skus[1]"),
        ("/api/suppliers", {"name": "east", "options": {"file": "\0"}}, "options.file"),
        ("/api/suppliers", {"name": "east", "options": {"\0": 1}}, "options."),
        ("/api/sync/approve", {"all": True, "reason": "half a pair: \ud800"}, "reason"),
    ),
)
def test_any_field_of_a_body_is_named(
    operator: ApiClient, address: str, body: Mapping[str, Any], field: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = operator.post(address, content=json.dumps(body), headers=headers)
    assert detail(answer).startswith(f"{field}: ")


@pytest.mark.parametrize("body", (b'{"reason": "\xff"}', DEEP.encode(), b'{"reason": "\\u00'))
def test_a_body_that_is_no_json_in_utf_8_is_malformed(operator: ApiClient, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = operator.post("/api/sync/pause", content=body, headers=headers)
    assert detail(answer).startswith("body: ")


@pytest.mark.parametrize("instant", ("0.5", "1", "1762900000", "-1", "soon", "1e9"))
def test_a_number_is_no_time(operator: ApiClient, instant: str) -> None:
    for field in ("since", "until"):
        assert detail(operator.get(f"/api/audit?{field}={instant}")).startswith(f"{field}: write a")


@pytest.mark.parametrize("instant", (0.5, 1_762_900_000, "1762900000", "tomorrow"))
def test_a_number_is_no_time_in_a_body(operator: ApiClient, instant: object) -> None:
    answer = operator.post("/api/sync/pause", json={"kind": "all", "until": instant})
    assert detail(answer).startswith("until: write a time in ISO 8601")


@pytest.mark.parametrize(
    ("method", "address", "allowed"),
    (
        ("PATCH", "/api/keys", "GET, POST"),
        ("DELETE", "/api/terms", "GET"),
        ("POST", "/api/sellers/acme/tier", "GET, PUT"),
        ("PUT", "/api/runs/1", "GET, DELETE"),
        ("DELETE", "/login", "GET, POST"),
        ("POST", "/healthz", "GET"),
    ),
)
def test_a_wrong_method_is_told_all_right_ones(
    operator: ApiClient, method: str, address: str, allowed: str
) -> None:
    answer = operator.request(method, address)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed
    assert answer.json()["detail"] == f"this path takes {allowed}"


@pytest.mark.parametrize(
    "address",
    (
        "/", "/changes", "/parts/", "/parts/A", "/freshness", "/login", "/live", "/runbook/held",
    ),
)  # fmt: skip
def test_a_page_with_many_query_fields_is_refused_with_security_headers(
    operator: ApiClient, address: str
) -> None:
    answer = operator.get(f"{address}?{'&'.join(f'f{n}=1' for n in range(51))}")
    assert answer.status_code == 400, answer.text
    for name, value in HEADERS.items():
        assert answer.headers[name.decode()] == value.decode()


def test_a_stream_whose_subject_has_many_fields_is_no_error(operator: ApiClient) -> None:
    subject = "%26".join(f"f{n}%3D1" for n in range(60))
    assert operator.get(f"/live?view=nowhere&subject={subject}").status_code == 404


def test_a_login_with_more_fields_than_the_form_has_shows_the_form_again(site: FastAPI) -> None:
    form = {f"field{n}": "1" for n in range(9)}
    answer = ApiClient(site).post("/login", data=form)
    assert answer.status_code == 422
    assert "<form" in answer.text
    assert answer.headers["content-security-policy"]


def test_a_bug_is_answered_as_a_problem_with_security_headers(site: FastAPI) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    site.add_api_route("/bug", fail)

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=site, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here.test") as client:
            return await client.get("/bug")

    answer = asyncio.run(send())
    assert answer.status_code == 500
    assert answer.json()["title"] == "internal error"
    assert answer.headers["content-security-policy"]
