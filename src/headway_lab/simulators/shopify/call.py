"""A parsed request to a simulated Shopify: its shop, its endpoint, its operation."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import GraphQLError

from headway_lab.simulators.shopify.schema import Operation, read_document

MUTATION_S = 0.03
PATH = re.compile(
    r"(?:/(?P<shop>[^/]+\.[^/]+))?/(?:"
    r"admin/api/\d{4}-\d{2}/(?P<api>graphql)\.json|admin/oauth/(?P<oauth>access_token)"
    r"|staged/(?P<staged>\d+)|bulk/(?P<bulk>\d+)\.jsonl)"
)
METHODS = {"graphql": "POST", "oauth": "POST", "staged": "POST", "bulk": "GET"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopifyRequest:
    """A parsed request; `endpoint` is empty for an unknown path."""

    shop: str
    endpoint: str
    number: str
    headers: Mapping[str, str]
    body: bytes
    operation: Operation | tuple[GraphQLError, ...] | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """What it is counted as: the root fields of its document, or its endpoint."""
        if isinstance(self.operation, Operation):
            return tuple(dict.fromkeys(self.operation.fields))
        return (self.endpoint or "other",)

    @property
    def work_s(self) -> float:
        """How much longer than others it takes: many mutations are more work than one."""
        if isinstance(self.operation, Operation) and self.operation.is_mutation:
            return MUTATION_S * (len(self.operation.fields) - 1)
        return 0.0


def read_call(method: str, path: str, headers: Mapping[str, str], body: bytes) -> ShopifyRequest:
    """Read a request; the shop is the first part of its path, or else its host."""
    lowered = {name.lower(): value for name, value in headers.items()}
    match = PATH.fullmatch(path)
    named = {name: value for name, value in match.groupdict().items() if value} if match else {}
    shop = named.pop("shop", "") or lowered.get("host", "").partition(":")[0]
    kind, number = next(iter(named.items()), ("", ""))
    endpoint = number if kind == "api" else kind
    if METHODS.get(endpoint) != method:
        endpoint = ""
    request = _parse_body(body) if endpoint == "graphql" else {}
    query, variables = request.get("query"), request.get("variables") or {}
    name = request.get("operationName")
    is_fit = isinstance(query, str) and isinstance(variables, dict) and isinstance(name, str | None)
    return ShopifyRequest(
        shop=shop,
        endpoint=endpoint,
        number=number,
        headers=lowered,
        body=body,
        operation=read_document(str(query), name) if is_fit else None,
        variables=variables,
    )


def _parse_body(body: bytes) -> dict[str, Any]:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return request if isinstance(request, dict) else {}
