"""Law L16 in the catalog lane: a part that shared a call with a culprit must not become old."""

from datetime import UTC, datetime

import pytest

from headway.core.catalog.listings import Sku
from headway_lab.simulation.blast_radius import Bystanders
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.virtual_clock import VirtualClock

HOUR_S = 3600.0
SKUS = {name: Sku(name.upper()) for name in ("bad", "near", "far")}


@pytest.mark.parametrize(("age_h", "is_broken"), ((9.9, False), (10.1, True)))
def test_a_bystander_may_be_twice_as_old_as_all_others_and_no_older(
    age_h: float, *, is_broken: bool
) -> None:
    violations = ViolationLog(VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    bystanders = Bystanders(violations, ["BAD"], SKUS)
    bystanders.called(["BAD", "NEAR"])
    bystanders.called(["FAR"])
    bystanders.read("far", 5 * HOUR_S)
    bystanders.read("far", 10 * HOUR_S)
    bystanders.read("near", age_h * HOUR_S)
    bystanders.close(11 * HOUR_S, ["near", "far"])
    assert violations.counts == {"L16": int(is_broken)}


def test_without_a_culprit_the_law_is_not_in_play() -> None:
    violations = ViolationLog(VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    bystanders = Bystanders(violations, [], SKUS)
    bystanders.called(["NEAR"])
    bystanders.close(100 * HOUR_S, ["near"])
    assert "L16" in violations.not_checked
