"""One request inside a simulated shop: its app, what it wrote, and whether it is a repetition.

The log of writes checks "one effect": a write that changed nothing of its item is double.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from graphql import GraphQLError, GraphQLResolveInfo, get_directive_values

from headway_lab.simulators.shopify.schema import LIST_MAX, SCHEMA
from headway_lab.simulators.shopify.shop import SimulatedShop

if TYPE_CHECKING:
    from headway_lab.simulators.shopify.bulk import BulkOperations
    from headway_lab.simulators.shopify.order_replies import Trade

KEY_LIFE_S = 86_400.0
Facet = tuple[str, str, str | None, object, object]  # kind, id, location, old, new
UserError = dict[str, Any]
Payload = dict[str, Any]
CONCURRENT = "IDEMPOTENCY_CONCURRENT_REQUEST", "This request is currently in progress, try again."
FAILED_BEFORE = (
    "IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED",
    "The previous attempt with this idempotency key failed; use another key.",
)
MISMATCH = (
    "IDEMPOTENCY_KEY_PARAMETER_MISMATCH",
    "The same idempotency key cannot be used with different operation parameters.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopEffect:
    """One facet of an accepted write; facets of the same `write` belong to the same item."""

    at_s: float
    shop: str
    kind: str
    id: str
    location: str | None
    old: object
    new: object
    request: int
    write: int


@dataclass(slots=True, kw_only=True)
class WriteLog:
    """All accepted writes, the errors of the others, and the listener."""

    effects: list[ShopEffect] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    replays: int = 0
    writes: int = 0
    on_effect: Callable[[ShopEffect], None] | None = None
    # Whether the next write with a key fails inside the shop.
    breaks_next: bool = False

    def double_writes(self) -> list[ShopEffect]:
        """Return the first facet of every write that changed nothing."""
        firsts: dict[int, ShopEffect] = {}
        changed: set[int] = set()
        for effect in self.effects:
            firsts.setdefault(effect.write, effect)
            if effect.old != effect.new:
                changed.add(effect.write)
        return [effect for write, effect in firsts.items() if write not in changed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """An idempotency key that was used, and its result; None if the attempt failed inside."""

    fingerprint: str
    payload: Payload | None
    request: int
    at_s: float
    ends_s: float


@dataclass(slots=True, kw_only=True)
class ShopRequest:
    """The context of a resolver: the shop, the time, the request, and the log of writes."""

    shop: SimulatedShop
    trade: "Trade"
    log: WriteLog
    keys: dict[str, Used]
    bulk: "BulkOperations"
    url: str
    now: datetime
    at_s: float
    ends_s: float
    request: int
    points: int = 0
    # Parts of searches that were ignored.
    warnings: list[Payload] = field(default_factory=list)

    def warn(self, path: str, query: str, name: str) -> None:
        """Note that a search was made without its condition on this field."""
        text, code = "Invalid search field for this query.", "invalid_field"
        warning = {"field": name, "message": text, "code": code}
        entry = {"path": [path], "query": query, "warnings": [warning]}
        if entry not in self.warnings:
            self.warnings.append(entry)

    def record(self, facets: Sequence[Facet]) -> None:
        """Note an accepted write of one item."""
        self.log.writes += 1
        for kind, id_, location, old, new in facets:
            effect = ShopEffect(
                at_s=self.at_s,
                shop=self.shop.setup.domain,
                kind=kind,
                id=id_,
                location=location,
                old=old,
                new=new,
                request=self.request,
                write=self.log.writes,
            )
            self.log.effects.append(effect)
            if self.log.on_effect is not None:
                self.log.on_effect(effect)

    def user_error(
        self, code: str | None, path: Sequence[str | int] | None, message: str
    ) -> UserError:
        """Return an error about a part of the input."""
        self.log.codes[code or "user error"] += 1
        where = None if path is None else [str(step) for step in path]
        return {"code": code, "field": where, "message": message}


Info: TypeAlias = "GraphQLResolveInfo[ShopRequest]"


def refuse(code: str, message: str) -> GraphQLError:
    """Make the error of a request that is not executed."""
    return GraphQLError(message, extensions={"code": code})


def check_length(values: Sequence[object]) -> None:
    """Refuse a list that is longer than any list may be."""
    if len(values) > LIST_MAX:
        raise refuse(
            "MAX_INPUT_SIZE_EXCEEDED",
            f"The input array size of {len(values)} is greater than the maximum allowed of"
            f" {LIST_MAX}.",
        )


def once(
    info: Info,
    arguments: Mapping[str, Any],
    *,
    act: Callable[[], Payload],
    decline: Callable[[UserError], Payload],
) -> Payload:
    """Act the first time a key is used; afterwards return the same answer without acting."""
    shop_request = info.context
    directive = SCHEMA.get_directive("idempotent")
    assert directive is not None
    idempotency = get_directive_values(directive, info.field_nodes[0], info.variable_values)
    if not idempotency or not idempotency["key"]:
        raise refuse(
            "BAD_REQUEST",
            "The @idempotent directive is required for this mutation but was not provided.",
        )
    fingerprint = info.field_name + json.dumps(arguments, sort_keys=True, default=str)
    for key in list(
        takewhile(
            lambda key: shop_request.keys[key].at_s <= shop_request.at_s - KEY_LIFE_S,
            shop_request.keys,
        )
    ):
        del shop_request.keys[key]
    used = shop_request.keys.get(idempotency["key"])
    if used is not None:
        if used.fingerprint != fingerprint:
            return decline(shop_request.user_error(MISMATCH[0], None, MISMATCH[1]))
        if shop_request.at_s < used.ends_s and used.request != shop_request.request:
            return decline(shop_request.user_error(CONCURRENT[0], None, CONCURRENT[1]))
        if used.payload is None:
            raise refuse(*FAILED_BEFORE)
        shop_request.log.replays += 1
        return used.payload
    log = shop_request.log
    is_broken, log.breaks_next = log.breaks_next, False
    payload = None if is_broken else act()
    shop_request.keys[idempotency["key"]] = Used(
        fingerprint=fingerprint,
        payload=payload,
        request=shop_request.request,
        at_s=shop_request.at_s,
        ends_s=shop_request.ends_s,
    )
    if payload is None:
        raise refuse("INTERNAL_SERVER_ERROR", "Internal error.")
    return payload
