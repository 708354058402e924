"""The OpenAPI document is kept: whatever is sent, by whomever, the reply is one it promises."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.conftest import START, fresh_database
from tests.operations.room import ACME, Room, furnish
from tests.web.api_requests import Asking
from tests.web.keys import shown

from headway.cli.api import describe
from headway.core.access import Role
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.web.openapi import operations
from headway.web.reference import reference
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock

EXAMPLES = 12
KEPT = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


@pytest.fixture(scope="module")
def room(postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder = tmp_path_factory.mktemp("room")
    with fresh_database(postgres) as dsn, open_pool(dsn) as pool:
        yield furnish(pool, VirtualClock(START), folder, requests_per_minute=1_000_000)


@pytest.fixture(scope="module")
def site(room: Room) -> FastAPI:
    return create(room.app, refresh_s=0)


DOCUMENT = describe()
API = schemathesis.openapi.from_dict(DOCUMENT).include(path_regex="^/(api|healthz|readyz|metrics)")
OPERATIONS = [each.ok() for each in API.get_all_operations()]
every_operation = pytest.mark.parametrize(
    "operation", OPERATIONS, ids=[each.label for each in OPERATIONS]
)
bounded = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@every_operation
@pytest.mark.parametrize(
    ("role", "seller"), ((Role.OPERATOR, None), (Role.SELLER, ACME)), ids=("operator", "seller")
)
def test_whatever_is_sent_the_reply_is_one_that_was_promised(
    operation: Any, role: Role, seller: str | None, room: Room, site: FastAPI
) -> None:
    key = shown(room.app.pool, role, seller)

    @bounded
    @given(case=operation.as_strategy())
    def hold(case: schemathesis.Case) -> None:
        _hold(case, site, key)

    hold()


def _hold(case: schemathesis.Case, site: FastAPI, key: dict[str, str]) -> None:
    sent = case.as_transport_kwargs(base_url="http://here.test")
    headers = {**dict(sent.pop("headers")), **key}
    answer = Asking(site).request(
        sent.pop("method"), sent.pop("url"), headers=headers, **_plain(sent)
    )
    case.validate_response(answer, checks=KEPT)


def _plain(sent: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sent.items() if name in {"params", "json", "content"}}


def test_every_body_and_reply_has_an_example_and_every_example_of_a_body_is_taken(
    site: FastAPI, room: Room
) -> None:
    told = site.openapi()
    for operation in operations(told):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [reply.get("content", {}) for reply in operation["responses"].values()]
        for content in contents:
            for each in content.values():
                assert "example" in each, operation["operationId"]
    operator = Asking(site, headers=shown(room.app.pool))
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None and path.startswith("/api/"):
                address = path.replace("{sku}", "P-3").replace("{job}", "x")
                answer = operator.request(method.upper(), address, json=body["example"])
                assert answer.status_code != 422 or "not come yet" in answer.text, answer.text


def test_the_reference_page_says_what_the_document_says() -> None:
    page = Path(__file__).parents[2] / "docs/reference/api.md"
    assert page.read_text(encoding="utf-8") == reference(DOCUMENT), (
        "write it anew: headway api --reference > docs/reference/api.md"
    )


def test_every_error_is_told_as_a_problem(site: FastAPI) -> None:
    for operation in operations(site.openapi()):
        for status, reply in operation["responses"].items():
            if int(status) >= 400 and operation["operationId"] != "readyz_readyz_get":
                assert list(reply["content"]) == ["application/problem+json"], operation
