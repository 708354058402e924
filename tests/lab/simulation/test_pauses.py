"""The law checks notice calls during a pause."""

import pytest

from headway.core.catalog.listings import SellerId
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.pauses import PauseChecks
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.virtual_clock import VirtualClock

ACME, BOLT = SellerId("acme"), SellerId("bolt")


@pytest.mark.parametrize(
    ("fault", "broken"),
    (
        ("pause:2h@01:00", {"a call", "the shop of acme", "the shop of bolt"}),
        ("pause-supplier:2h@01:00", {"a call"}),
        ("pause-seller:2h@01:00", {"the shop of acme"}),
        ("pause:2h@04:00", set()),
        ("outage:2h@01:00", set()),
    ),
)
def test_calls_and_pushes_during_a_pause_are_reported_and_others_are_not(
    clock: VirtualClock, fault: str, broken: set[str]
) -> None:
    violations = ViolationLog(clock)
    clock.sleep(2 * 3600)
    pauses = PauseChecks(parse_faults([fault]), violations=violations, clock=clock, seller=ACME)
    pauses.called("to sign in")
    for seller in (ACME, BOLT):
        pauses.visited(seller)
    texts = {example.text.split(" was ")[0].split(" (")[0] for example in violations.examples}
    assert texts == broken
    assert violations.counts.get("L1", 0) == len(broken)
