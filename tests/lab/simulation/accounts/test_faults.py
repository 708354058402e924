"""`--fault` in the account lane: for all platforms, for one, or for our workers."""

import pytest

from headway.errors import InvalidError
from headway_lab.platforms import ETSY, PLATFORMS, SHOPIFY
from headway_lab.simulation.accounts.faults import parse_account_faults


def test_a_fault_affects_all_platforms_or_the_one_that_it_names() -> None:
    faults = parse_account_faults(["error:2%", "etsy-outage:2h@1d10:00", "crash:1/h"])
    assert faults.workers.crashes_per_h == 1
    assert {faults.platforms[name].shares["error"] for name in PLATFORMS} == {0.02}
    (outage,) = faults.platforms[ETSY].outages
    assert (outage.start_s, outage.end_s) == (34 * 3600, 36 * 3600)
    assert faults.platforms[SHOPIFY].outages == ()


@pytest.mark.parametrize("spec", ("poison:2", "shop-edit:3/d", "etsy-crash:1/h", "nonsense"))
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
