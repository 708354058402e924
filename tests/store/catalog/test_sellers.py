from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import Guard, MassChange, SellerSettings
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.term_tables import read_markups
from headway.core.timetable.policies.rolling import Rolling
from headway.errors import InvalidError
from headway.store.access.isolation import TenantPool
from headway.store.catalog.listings import Listings
from headway.store.catalog.sellers import Sellers
from headway_lab.virtual_clock import VirtualClock

A, B = SellerId("a"), SellerId("b")
PRICES, STOCK = MassChange.PRICES, MassChange.STOCK
DEFAULTS = SellerSettings(terms=Terms(locations={"Miami FL": "Miami"}, currency="USD"))
Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sellers(pool: ConnectionPool) -> Sellers:
    return Sellers(pool, DEFAULTS)


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def query(sql: str, *values: object) -> list[tuple[Any, ...]]:
        with pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    return query


@pytest.fixture
def enter(pool: ConnectionPool, clock: VirtualClock) -> Callable[[SellerId, int], None]:
    def add(seller: SellerId, count: int) -> None:
        keys = [(seller, Sku(f"P{number}")) for number in range(count)]
        Listings(pool).add(keys, policy=Rolling(), now=clock.now())

    return add


def move(ask: Ask, seller: SellerId, count: int, at: object) -> None:
    ask(
        "INSERT INTO listing_state (user_id, sku, moved_at, emptied_at) SELECT user_id, sku, %s, %s"
        " FROM product_sync_schedule WHERE user_id = %s ORDER BY sku LIMIT %s",
        at,
        at,
        seller,
        count,
    )


def test_a_seller_without_a_profile_stands_as_the_deployment_says(
    sellers: Sellers, clock: VirtualClock
) -> None:
    assert sellers.settings([A], clock.now()) == {A: DEFAULTS}
    assert set(sellers.own_terms(A).values()) == {None}


def test_what_a_seller_chose_stands_over_the_deployments_and_can_be_given_up(
    sellers: Sellers, clock: VirtualClock
) -> None:
    now = clock.now()
    chosen = {
        "price_basis": "net",
        "markup": Decimal("0.3"),
        "rounding": "99",
        "margin_min": Decimal("0.05"),
        "compare_at": "list",
        "channels": "Online Store, Shop",
        "oversell": "deny",
        "description_template": "<p>{name}</p>",
        "guard_move": Decimal("0.2"),
        "guard_share": Decimal(1),
        "currency": "EUR",
        "locations": "Chicago IL=Depot",
        "markups": "WF*=12%",
    }
    sellers.set_terms(A, chosen, now=now)
    assert sellers.own_terms(A) == chosen
    settings = sellers.settings([A, B], now)
    assert settings[B] == DEFAULTS
    assert settings[A].guard == Guard(move_max=Decimal("0.2"), share_max=Decimal(1))
    assert settings[A].terms == Terms(
        locations={"Chicago IL": "Depot"},
        unsold=["Miami FL"],  # the deployment knows it, and this seller does not sell from it
        currency="EUR",
        markups=read_markups("WF*=12%"),
        basis="net",
        markup=Decimal("0.3"),
        rounding="99",
        margin_min=Decimal("0.05"),
        compare_at="list",
        channels="Online Store, Shop",
        oversell="deny",
        description_template="<p>{name}</p>",
    )
    sellers.set_terms(A, {"markup": None, "guard_share": None}, now=now)
    assert sellers.settings([A], now)[A].terms.markup == DEFAULTS.terms.markup
    assert sellers.own_terms(A) == {**chosen, "markup": None, "guard_share": None}
    sellers.set_terms(A, {}, now=now)


def test_changed_terms_are_in_the_history_with_actor_old_and_new_value(
    sellers: Sellers, pool: ConnectionPool, clock: VirtualClock
) -> None:
    ann, now = sellers.over(TenantPool(pool, actor="ann", seller=None)), clock.now()
    for changes in (
        {"markup": Decimal("0.12"), "rounding": "99"},
        {"markup": Decimal("0.12"), "rounding": "cent"},
        {"rounding": "cent"},
        {"markup": None},
    ):
        ann.set_terms(A, changes, now=now)
    with pool.connection() as connection:
        rows = connection.execute(
            "SELECT actor, user_id, old_value, new_value FROM sync_audit_log"
            " WHERE event_type = 'terms_set' ORDER BY sync_timestamp, old_value ->> 'rounding'"
        ).fetchall()
    assert sorted(rows, key=str) == [
        ("ann", A, {"markup": "0.12"}, {"markup": None}),
        ("ann", A, {"markup": None, "rounding": None}, {"markup": "0.12", "rounding": "99"}),
        ("ann", A, {"rounding": "99"}, {"rounding": "cent"}),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("price_basis", "gross"),
        ("markup", Decimal(-1)),
        ("markup", Decimal("NaN")),
        ("markup", "0.1"),
        ("rounding", "up"),
        ("margin_min", Decimal(101)),
        ("compare_at", "net"),
        ("channels", "Online Store,,"),
        ("oversell", "never"),
        ("description_template", "{name.__class__}"),
        ("guard_move", Decimal("-0.1")),
        ("guard_share", Decimal("1.1")),
        ("listing_count", Decimal(1)),
    ),
)
def test_a_term_that_makes_no_sense_is_refused_by_name(
    sellers: Sellers, clock: VirtualClock, name: str, value: Decimal | str
) -> None:
    with pytest.raises(InvalidError, match=name):
        sellers.set_terms(A, {"rounding": "cent", name: value}, now=clock.now())
    assert sellers.own_terms(A)["rounding"] is None, "nothing of it was stored"


def test_catalogs_are_counted_by_who_is_active_for_all_or_for_some(
    sellers: Sellers, clock: VirtualClock, ask: Ask, enter: Callable[..., None]
) -> None:
    now = clock.now()
    enter(A, 5)
    enter(B, 3)
    assert sellers.count_catalogs(now) == 2
    assert sellers.count_catalogs(now) == 0
    ask("UPDATE product_sync_schedule SET is_active = false WHERE sku = 'P0'")
    assert sellers.count_catalogs(now, [B]) == 1
    counts = {
        name: settings.catalog_count for name, settings in sellers.settings([A, B], now).items()
    }
    assert counts == {A: 5, B: 2}
    ask("UPDATE product_sync_schedule SET is_active = false")
    assert sellers.count_catalogs(now) == 2


def test_currency_and_locations_are_those_of_the_sellers_not_of_the_deployment(
    sellers: Sellers, ask: Ask, clock: VirtualClock
) -> None:
    default = sellers.defaults.terms
    assert [terms.locations for terms in sellers.location_terms()] == [default.locations]
    sellers.set_terms(A, {"currency": "EUR", "locations": "Berlin=Lager"}, now=clock.now())
    ask("UPDATE profiles SET listing_count = 1 RETURNING user_id")
    (terms,) = sellers.location_terms()
    assert (terms.locations, terms.is_unknown("Berlin")) == ({"Berlin": "Lager"}, False)
    ask("INSERT INTO profiles (user_id, listing_count) VALUES ('best', 4) RETURNING user_id")
    assert sum(terms.is_unknown("Berlin") for terms in sellers.location_terms()) == 1
    assert sellers.currency([A]) == "EUR"
    assert sellers.currency([SellerId("nobody")]) == default.currency
    assert sellers.currency([A, SellerId("nobody")]) == default.currency, "they differ"


def test_a_seller_who_was_never_counted_is_counted_on_the_spot(
    sellers: Sellers, clock: VirtualClock, enter: Callable[..., None]
) -> None:
    enter(A, 7)
    assert sellers.settings([A], clock.now())[A].catalog_count == 7


def test_moves_are_those_of_one_day_and_one_seller_and_counted_as_far_as_they_decide(
    sellers: Sellers, clock: VirtualClock, ask: Ask, enter: Callable[..., None]
) -> None:
    now = clock.now()
    enter(A, 200)
    enter(B, 200)
    move(ask, B, 200, now)
    move(ask, A, 30, now - timedelta(hours=23))
    assert sellers.settings([A], now)[A].changed_count == {PRICES: 30, STOCK: 30}
    assert sellers.settings([A], now + timedelta(hours=1))[A].changed_count == {}
    assert sellers.settings([B], now)[B].changed_count == {PRICES: 51, STOCK: 51}, (
        "a quarter of 200, and one"
    )
    assert sellers.settings([B], now)[B].guard.mass_least(200) == 51
    sellers.set_terms(B, {"guard_share": Decimal(1)}, now=now)
    assert sellers.settings([B], now)[B].changed_count == {}


def test_a_mass_change_is_let_pass_until_an_instant(
    sellers: Sellers, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    until = now + timedelta(hours=2)
    ask("INSERT INTO profiles (user_id, mass_approved_until) VALUES (%s, %s)", A, until)
    settings = sellers.settings([A, B], now)
    assert settings[A].mass_approved_until == until
    assert settings[B].mass_approved_until is None


def test_names_are_all_who_list_chose_or_connected_anything(
    sellers: Sellers, clock: VirtualClock, ask: Ask, enter: Callable[..., None]
) -> None:
    assert sellers.names() == []
    enter(B, 2)
    enter(A, 2)
    sellers.set_terms(SellerId("chooser"), {"rounding": "99"}, now=clock.now())
    ask(
        "INSERT INTO connected_accounts (user_id, platform, shop)"
        " VALUES ('d', 'shopify', 'd.example'), ('a', 'shopify', 'a.example')"
    )
    assert sellers.names() == ["a", "b", "chooser", "d"]
