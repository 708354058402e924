"""Generated requests of every role: each response is one that the OpenAPI document allows."""

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
from tests.operations.sample import ACME, SampleDeployment, create_sample
from tests.web.api_requests import ApiClient
from tests.web.document import DOCUMENT
from tests.web.keys import auth_headers

from headway.clock import fresh_id
from headway.core.access import Role
from headway.core.pauses import Pause, PauseKind
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
def sample(
    postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SampleDeployment]:
    folder = tmp_path_factory.mktemp("sample")
    with fresh_database(postgres) as dsn, open_pool(dsn) as pool:
        yield create_sample(pool, VirtualClock(START), folder, requests_per_minute=1_000_000)


@pytest.fixture(scope="module")
def site(sample: SampleDeployment) -> FastAPI:
    return create(sample.app, refresh_s=0)


API = schemathesis.openapi.from_dict(DOCUMENT).include(path_regex="^/(api|healthz|readyz|metrics)")
OPERATIONS = [operation.ok() for operation in API.get_all_operations()]
every_operation = pytest.mark.parametrize(
    "operation", OPERATIONS, ids=[operation.label for operation in OPERATIONS]
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
def test_every_response_is_one_that_the_document_allows(
    operation: Any, sample: SampleDeployment, site: FastAPI
) -> None:
    roles = ((Role.OPERATOR, None), (Role.SELLER, ACME))
    keys = [auth_headers(sample.app.pool, role, seller) for role, seller in roles]
    _keep_inside(sample, operation.path)

    @bounded
    @given(case=operation.as_strategy())
    def check(case: schemathesis.Case) -> None:
        # To generate a request takes longer than to send it, so every role sends the same ones.
        for key in keys:
            _check(case, site, key)

    check()


def _check(case: schemathesis.Case, site: FastAPI, key: dict[str, str]) -> None:
    arguments = case.as_transport_kwargs(base_url="http://here.test")
    headers = {**dict(arguments.pop("headers")), **key}
    answer = ApiClient(site).request(
        arguments.pop("method"), arguments.pop("url"), headers=headers, **_plain(arguments)
    )
    case.validate_response(answer, checks=KEPT)


def _keep_inside(sample: SampleDeployment, path: str) -> None:
    """Pause everything before a request that would call the sample's shops or suppliers."""
    if path.endswith(("/record", "/probe")):
        now = sample.app.clock.now()
        sample.app.pauses.pause(Pause(kind=PauseKind.ALL, since=now), now)


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in arguments.items() if name in {"params", "json", "content"}
    }


def test_every_body_and_response_has_an_example_and_example_bodies_are_accepted(
    site: FastAPI, sample: SampleDeployment
) -> None:
    document = site.openapi()
    for operation in operations(document):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [reply.get("content", {}) for reply in operation["responses"].values()]
        for content in contents:
            for media in content.values():
                assert "example" in media, operation["operationId"]
    operator = ApiClient(site, headers=auth_headers(sample.app.pool))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None and path.startswith("/api/"):
                address = path.replace("{sku}", "P-3").replace("{job}", "x")
                address = address.replace("{upload}", "0" * 64).replace("{number}", "0")
                address = address.replace("{permit_id}", fresh_id())
                _keep_inside(sample, path)
                answer = operator.request(method.upper(), address, json=body["example"])
                assert answer.status_code != 422 or "not come yet" in answer.text, answer.text


def test_the_reference_page_matches_the_document() -> None:
    page = Path(__file__).parents[2] / "docs/reference/api.md"
    assert page.read_text(encoding="utf-8") == reference(DOCUMENT), (
        "regenerate it: headway api --reference > docs/reference/api.md"
    )


def test_every_error_is_documented_as_a_problem(site: FastAPI) -> None:
    for operation in operations(site.openapi()):
        for status, reply in operation["responses"].items():
            if int(status) >= 400 and operation["operationId"] != "get_readiness":
                assert list(reply["content"]) == ["application/problem+json"], operation
