"""The shop's search language as far as it is used: `sku:A-1 OR sku:"B 2"`, AND by a space.

A SKU is found by its words: `sku:A-1` finds every SKU that contains `a` and `1`. Quotes keep the
words together and in order, no more; to find exactly one SKU, compare the results.
"""

import re
from collections.abc import Iterator
from operator import eq, ge, gt, le, lt

from graphql import GraphQLError

from headway_lab.simulators.shopify.shop import WORD, ShopVariant, SimulatedShop, number, pick

TERM = re.compile(
    r"""\s*(?:(?P<mark>[()])|(?P<link>OR|AND)(?=[\s(]|$)
    |(?:(?P<field>\w+):)?(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'
    |(?P<plain>(?:\\.|[^\s()"'\\])+)))""",
    re.VERBOSE,
)
HOLDS = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
Token = tuple[str, str, str, bool]  # kind, field, value, quoted


FIELDS = frozenset({"", "id", "product_id", "sku"})


def search(shop: SimulatedShop, query: str | None) -> tuple[list[ShopVariant], list[str]]:
    """Return the variants that a query finds, oldest first, and the fields it ignored.

    Raises GraphQLError.
    """
    if not query or not query.strip():
        return pick(shop.variants, shop.variants), []
    tokens = list(_tokens(query))
    unknown = [field for kind, field, _, _ in tokens if kind == "term" and field not in FIELDS]
    matches = _any_of(shop, tokens)
    if tokens:
        raise GraphQLError("The query has a bracket too many")
    return pick(shop.variants, matches), unknown


def _tokens(query: str) -> Iterator[Token]:
    """Yield the tokens last to first, so that the next one is popped from the end."""
    tokens: list[Token] = []
    at = 0
    text = query.rstrip()
    while at < len(text):
        match = TERM.match(text, at)
        if match is None:
            raise GraphQLError(f"The query cannot be read at {text[at:]!r}")
        at = match.end()
        if sign := match["mark"] or match["link"]:
            tokens.append((sign, "", "", False))
            continue
        value = next(
            group for group in match.group("double", "single", "plain") if group is not None
        )
        plain = re.sub(r"\\(.)", r"\1", value)
        tokens.append(("term", match["field"] or "", plain, match["plain"] is None))
    yield from reversed(tokens)


def _any_of(shop: SimulatedShop, tokens: list[Token]) -> set[str]:
    matches = _all_of(shop, tokens)
    while tokens and tokens[-1][0] == "OR":
        tokens.pop()
        matches |= _all_of(shop, tokens)
    return matches


def _all_of(shop: SimulatedShop, tokens: list[Token]) -> set[str]:
    matches = _one(shop, tokens)
    while tokens and tokens[-1][0] not in {"OR", ")"}:
        if tokens[-1][0] == "AND":
            tokens.pop()
        matches &= _one(shop, tokens)
    return matches


def _one(shop: SimulatedShop, tokens: list[Token]) -> set[str]:
    kind, field, value, is_quoted = tokens.pop() if tokens else ("end", "", "", False)
    if kind == "(":
        matches = _any_of(shop, tokens)
        if not tokens or tokens.pop()[0] != ")":
            raise GraphQLError("The query lacks a bracket")
        return matches
    if kind != "term":
        raise GraphQLError("The query lacks a term")
    if field in {"sku", ""}:
        matches = set(shop.by_words(value))
        return {sku for sku in matches if not is_quoted or _holds(shop, sku, value)}
    if field in {"id", "product_id"}:
        sign, key = re.fullmatch(r"([<>]=?)?(.*)", value).groups()  # type: ignore[union-attr]
        holds, key = HOLDS[sign or "="], number(f"/{key}")
        return {
            variant.id
            for variant in shop.variants.values()
            if holds(number(variant.id if field == "id" else variant.product), key)
        }
    return set(shop.variants)  # an unknown field selects nothing, with a warning


def _holds(shop: SimulatedShop, variant_id: str, value: str) -> bool:
    """Return True if the SKU contains these words one after the other."""
    words = " ".join(WORD.findall(value.lower()))
    sku = " ".join(WORD.findall(shop.variants[variant_id].sku.lower()))
    return f" {words} " in f" {sku} "
