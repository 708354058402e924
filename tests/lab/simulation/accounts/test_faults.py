"""`--fault` in the account lane: for all platforms, for one, or for our workers."""

import pytest

from headway.errors import InvalidError
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY
from headway_lab.simulation.accounts.culprits import choose_culprits
from headway_lab.simulation.accounts.faults import CulpritKind, parse_account_faults
from headway_lab.simulation.accounts.world import account_world


def test_a_fault_affects_all_platforms_or_the_one_that_it_names() -> None:
    faults = parse_account_faults(["error:2%", "etsy-outage:2h@1d10:00", "crash:1/h"])
    assert faults.workers.crashes_per_h == 1
    assert {faults.platforms[name].shares["error"] for name in PLATFORMS} == {0.02}
    (outage,) = faults.platforms[ETSY].outages
    assert (outage.start_s, outage.end_s) == (34 * 3600, 36 * 3600)
    assert faults.platforms[SHOPIFY].outages == ()


@pytest.mark.parametrize("spec", ("vanish:2", "shop-edit:3/d", "etsy-crash:1/h", "nonsense"))
def test_faults_of_the_other_lane_are_refused_with_those_that_are_known(spec: str) -> None:
    with pytest.raises(InvalidError, match="is not of the account lane; known: crash"):
        parse_account_faults([spec])


def test_a_fault_that_cannot_be_read_shows_how_to_write_it() -> None:
    with pytest.raises(InvalidError, match="write it as outage:6h@10:00"):
        parse_account_faults(["etsy-outage:soon"])


def test_a_flood_of_webhooks_is_for_one_shop_of_any_platform_or_of_the_named_one() -> None:
    anywhere, at_etsy = parse_account_faults(["webhook-flood:2000", "etsy-webhook-flood:30"]).floods
    assert (anywhere.platforms, anywhere.count) == (PLATFORMS, 2000)
    assert (at_etsy.platforms, at_etsy.count) == ((ETSY,), 30)
    with pytest.raises(InvalidError, match="write it as webhook-flood:2000"):
        parse_account_faults(["webhook-flood:many"])


def test_tied_faults_are_spread_over_platforms_or_are_of_the_named_one() -> None:
    faults = parse_account_faults(["poison:5", "etsy-page-poison", "endless:2"])
    kinds = [(spec.kind, spec.platforms, spec.count) for spec in faults.culprits]
    assert kinds == [
        (CulpritKind.POISON, PLATFORMS, 5),
        (CulpritKind.PAGE, (ETSY,), 1),
        (CulpritKind.ENDLESS, PLATFORMS, 2),
    ]


def test_a_wrong_refusal_has_a_length_and_may_have_a_time_and_a_platform() -> None:
    faults = parse_account_faults(["wrong-403:10m", "printify-wrong-403:1h@1d10:00"])
    (usual,) = faults.refusals[ETSY]
    assert usual.end_s - usual.start_s == 600
    _, later = faults.refusals[PRINTIFY]
    assert (later.start_s, later.end_s) == (34 * 3600, 35 * 3600)


@pytest.mark.parametrize("spec", ("poison:few", "endless:0", "wrong-403", "wrong-403:soon"))
def test_a_tied_fault_that_cannot_be_read_shows_how_to_write_it(spec: str) -> None:
    with pytest.raises(InvalidError, match="cannot be read; write it as"):
        parse_account_faults([spec])


def test_the_same_seed_chooses_the_same_culprits_and_every_form_in_turn() -> None:
    world = account_world(sellers=20, days=1, seed=3)
    faults = parse_account_faults(["poison:12", "page-poison:3"])
    culprits = choose_culprits(world, faults, seed=3)
    assert culprits == choose_culprits(world, faults, seed=3)
    assert culprits != choose_culprits(world, faults, seed=4)
    poisoned = [culprit for culprit in culprits if culprit.kind is CulpritKind.POISON]
    assert len({(culprit.shop.key, culprit.order) for culprit in poisoned}) == len(poisoned)
    assert {culprit.shop.platform for culprit in poisoned} == set(PLATFORMS)
    assert len({culprit.form for culprit in poisoned}) >= 4
