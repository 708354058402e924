"""`/docs` shows the whole OpenAPI document, behind the login, without a script of its own."""

import re
from html import unescape

import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.web.api_requests import ApiClient
from tests.web.document import DOCUMENT
from tests.web.keys import auth_headers

from headway.core.access import Role

TAGS = [tag["name"] for tag in DOCUMENT["tags"]]
OPERATIONS = [
    (operation["tags"][0], f"{method.upper()} {path}", operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def text_of(html: str) -> str:
    """Return what a person reads of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())


def test_the_reference_needs_a_login(site: FastAPI) -> None:
    for address in ("/docs", "/docs/changes"):
        answer = ApiClient(site).get(address)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login?next=%2Fdocs")


def test_the_index_lists_every_operation_and_links_to_it(operator: ApiClient) -> None:
    html = operator.get("/docs").text
    for tag, request, operation in OPERATIONS:
        assert f'href="/docs/{tag}#{operation["operationId"]}"' in html
        assert request in text_of(html)


@pytest.mark.parametrize("tag", TAGS)
def test_a_subject_shows_its_operations_with_every_field(operator: ApiClient, tag: str) -> None:
    html = operator.get(f"/docs/{tag}").text
    text = text_of(html)
    for _, request, operation in (one for one in OPERATIONS if one[0] == tag):
        assert f'id="{operation["operationId"]}"' in html
        assert request in text
        for parameter in operation.get("parameters", ()):
            assert parameter["name"] in text
            assert " ".join(parameter["description"].replace("`", "").split()) in text
    for name in set(re.findall(r'href="#schema-(\w+)"', html)):
        schema = DOCUMENT["components"]["schemas"][name]
        assert f'id="schema-{name}"' in html, f"a link to {name} leads nowhere"
        for field, declared in schema.get("properties", {}).items():
            assert field in text
            assert " ".join(declared["description"].replace("`", "").split()) in text


def test_every_request_is_shown_as_a_command_that_can_be_sent(operator: ApiClient) -> None:
    text = unescape(operator.get("/docs/changes").text)
    assert '-X POST -H "Authorization: Bearer $HEADWAY_API_KEY"' in text
    assert '"skus": ["WF338109=K3"]' in text
    assert '"$HEADWAY_SERVER/api/sync/approve"' in text


def test_a_seller_may_read_it_too(site: FastAPI, pool: ConnectionPool) -> None:
    own = ApiClient(site, headers=auth_headers(pool, Role.SELLER, "acme"))
    assert own.get("/docs/products").status_code == 200


def test_an_unknown_subject_is_not_found(operator: ApiClient) -> None:
    assert operator.get("/docs/nothing").status_code == 404
