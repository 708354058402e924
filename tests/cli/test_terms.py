"""`headway terms` and `tier`: a price rule, a guard and a tier for sellers who exist."""

from collections.abc import Callable

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.conftest import Headway

Execute = Callable[..., None]
NEW_SELLER = "INSERT INTO profiles (user_id, created_at, updated_at) VALUES ('acme', now(), now())"


def rows_of(table: str, name: str) -> list[str]:
    """Return the rows of a printed table that begin with a name."""
    return [row for row in table.splitlines() if row.startswith(name)]


def test_a_seller_has_the_default_terms_until_it_sets_its_own(
    on_database: Headway, execute: Execute
) -> None:
    execute(NEW_SELLER)
    (markup,) = rows_of(on_database("terms", "acme").out, "markup")
    assert markup.split() == ["markup", "10", "%", "the", "deployment's"]
    changed = on_database(
        "terms", "acme", "--basis", "net", "--markup", "12.5%", "--rounding", "99"
    )
    (markup,) = rows_of(changed.out, "markup")
    assert markup.split() == ["markup", "12.5", "%", "acme's", "own"]
    assert "new terms take effect when a part is next read" in changed.out
    on_database("terms", "acme", "--guard-share", "0.5", "--min-margin", "-5%")
    reply = on_database("terms", "acme", "--json", HEADWAY_GUARD_MOVE="0.7").object()
    assert reply["terms"] == {
        "price_basis": "net", "markup": "0.125", "rounding": "99", "margin_min": "-0.05",
        "compare_at": "keep", "channels": "Online Store", "oversell": "keep",
        "description_template": "{description}",
        "guard_move": "0.7", "guard_share": "0.5",
        "currency": "USD",
        "locations": "Dallas Central=Dallas Central, Chicago IL=Chicago IL, Miami FL=Miami FL,"
        " Goodyear AZ=Goodyear AZ",
        "markups": "",
    }  # fmt: skip
    assert reply["own"] == ["price_basis", "markup", "rounding", "margin_min", "guard_share"]
    on_database("terms", "acme", "--reset", "--compare-at", "list")
    assert on_database("terms", "acme", "--json").object()["own"] == ["compare_at"]
    assert on_database("terms", "--json").object()["terms"]["markup"] == "0.10"


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (("--markup", "12%"), "say whose terms: headway terms SELLER"),
        (("acme", "--markup", "12"), "--markup: write 12% if that is meant"),
        (("acme", "--markup", "much"), "--markup: 'much' is no share; write 12% or 0.12"),
        (("acme", "--min-margin", "nan"), "--min-margin: 'nan' is no share"),
        (("acme", "--guard-share", "150%"), "guard_share must be a number from 0 to 1"),
        (("acme", "--rounding", "up"), "'up' is not one of 'cent', 'whole', '99'"),
    ),
)
def test_invalid_terms_are_refused(
    on_database: Headway, execute: Execute, arguments: tuple[str, ...], message: str
) -> None:
    execute(NEW_SELLER)
    assert message in on_database("terms", *arguments).error(2)
    assert on_database("terms", "acme", "--json").object()["own"] == []


@pytest.mark.parametrize(
    "arguments", (("tier", "acmee", "pro"), ("terms", "acmee", "--markup", "500%"))
)
def test_an_unknown_seller_is_refused_and_not_created(
    on_database: Headway, execute: Execute, pool: ConnectionPool, arguments: tuple[str, ...]
) -> None:
    message = on_database(*arguments).error(2)
    begins = "a seller begins with headway connect, import or publish"
    assert f"there is no seller acmee; {begins}" in message
    execute(NEW_SELLER)
    assert "there is no seller acmee; did you mean acme?" in on_database(*arguments).error(2)
    assert "no account of acme is connected" in on_database("tier", "acme", "pro").out
    with pool.connection() as connection:
        assert connection.execute("SELECT user_id FROM profiles").fetchall() == [("acme",)]
