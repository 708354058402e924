"""`--fault`: what each text means, and that a wrong one lists the right ones."""

import pytest

from headway.core.catalog.listings import Sku
from headway.errors import InvalidError
from headway_lab.simulation.faults import READERS, parse_faults
from headway_lab.simulation.known_faults import CATALOG_FAULTS
from headway_lab.simulators.faults import Interval
from headway_lab.simulators.shopify.faults import ShopPoisonForm

HOUR_S = 3600
SKUS = [Sku(f"S{number}") for number in range(20)]


def test_an_outage_has_a_length_and_a_beginning_today_or_later() -> None:
    faults = parse_faults(["outage:6h@10:00", "outage:90m@1d02:30"])
    assert faults.outages == (
        Interval(start_s=10 * HOUR_S, end_s=16 * HOUR_S),
        Interval(start_s=26.5 * HOUR_S, end_s=28 * HOUR_S),
    )


def test_shares_rates_and_counts_are_read() -> None:
    faults = parse_faults(
        ["timeout:5%", "error:0.5%", "crash:1/h", "stall:12/d", "poison:2", "vanish:3@10:00"]
    )
    assert faults.shares == {"timeout": 0.05, "error": 0.005}
    assert (faults.crashes_per_h, faults.stalls_per_h) == (1, 0.5)
    assert (faults.poison, faults.vanish) == (2, ((3, 10 * HOUR_S),))


def test_faults_of_shops_are_separate_from_those_of_the_supplier() -> None:
    faults = parse_faults(
        ["error:2%", "outage:1h@01:00", "shop-error:5%", "shop-lost-reply:5%",
         "shop-outage:2h@10:00", "shop-stale:55@1d10:00", "shop-edit:24/d", "shop-sale:2/h"]
    )  # fmt: skip
    assert (faults.shares, faults.shop_shares) == (
        {"error": 0.02},
        {"lost-reply": 0.05, "error": 0.05},
    )
    assert faults.shop_outages == (Interval(start_s=10 * HOUR_S, end_s=12 * HOUR_S),)
    assert len(faults.outages) == 1
    assert faults.shop_stale == ((55, 34 * HOUR_S),)
    assert (faults.shop_edits_per_h, faults.shop_sales_per_h) == (1, 2)
    assert faults.shop_plan(seed=1).outages() == faults.shop_outages


def test_no_sku_has_two_faults_and_the_seed_chooses_them() -> None:
    faults = parse_faults(["poison:4", "vanish:5", "badprice:6@03:00", "shop-poison:4"])
    affected = faults.affected(SKUS, seed=1)
    struck = [*affected.poison, *affected.vanish, *affected.badprice, *affected.unwritable]
    assert len(struck) == len(set(struck)) == 19
    assert {poison.form for poison in affected.shop_poison} == set(ShopPoisonForm)
    assert affected == faults.affected(list(reversed(SKUS)), seed=1)
    assert affected != faults.affected(SKUS, seed=2)


@pytest.mark.parametrize(
    ("spec", "shown"),
    (
        ("outage", "outage:6h@10:00 or outage:6h@1d10:00"),
        ("outage:6h", "outage:6h@10:00 or outage:6h@1d10:00"),
        ("outage:6h@25:00", "outage:6h@10:00 or outage:6h@1d10:00"),
        ("outage:0h@10:00", "outage:6h@10:00 or outage:6h@1d10:00"),
        ("outage:6@10:00", "outage:6h@10:00 or outage:6h@1d10:00"),
        ("timeout:5", "timeout:5%"), ("timeout:-5%", "timeout:5%"), ("timeout:101%", "timeout:5%"),
        ("timeout:5%%", "timeout:5%"), ("crash:1", "crash:1/h"), ("crash:x/h", "crash:1/h"),
        ("poison:many", "poison:2"), ("vanish:3@", "vanish:3@10:00"),
        ("shop-error:5", "shop-error:5%"), ("shop-stale:some", "shop-stale:55@10:00"),
        ("shop-edit:3", "shop-edit:3/d"), ("shop-outage:2h", "shop-outage:2h@10:00"),
    ),
)  # fmt: skip
def test_a_known_fault_written_wrongly_is_shown_how(spec: str, shown: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_faults([spec])
    assert str(caught.value) == f"--fault {spec!r} cannot be read; write it as {shown}"


def test_every_fault_has_an_example_that_can_be_read() -> None:
    examples = CATALOG_FAULTS.split(", ")
    assert {example.partition(":")[0] for example in examples} == set(READERS)
    parse_faults(examples)


@pytest.mark.parametrize("spec", ("flood:5%", "", ":", "outge:6h@10:00"))
def test_a_wrong_spec_is_one_line_that_lists_the_known_ones(spec: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_faults([spec])
    assert "known: outage:6h@10:00" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_than_all_calls_or_all_skus_cannot_fail() -> None:
    with pytest.raises(InvalidError, match="more than 100 %"):
        parse_faults(["timeout:60%", "error:60%"])
    with pytest.raises(InvalidError, match="more than 100 %"):
        parse_faults(["shop-html:60%", "shop-error:60%"])
    parse_faults(["error:60%", "shop-error:60%"])
    with pytest.raises(InvalidError, match="21 SKUs are to suffer but there are 20"):
        parse_faults(["poison:21"]).affected(SKUS, seed=1)
