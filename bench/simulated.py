"""How fast virtual time runs: a day of `rolling`, the real engine on the real store, laws on."""

from bench.services import CLOCK, version_of
from bench.table import report_progress, show
from headway_lab.simulation.scenario import Plan, Scenario
from headway_lab.simulation.throwaway_database import open_throwaway_database
from headway_lab.simulation.world import DAY_S, seeded_world

LISTINGS = 5000
DAYS = 1.0
SEED = 1
CALLS = "SELECT count(*), count(*) FILTER (WHERE seats_paid > 0) FROM call_ledger"


def run(*, listings: int = LISTINGS, days: float = DAYS) -> None:
    """Simulate, and print simulated seconds per real second and milliseconds per call."""
    with open_throwaway_database() as database:
        at = CLOCK.monotonic()
        world = seeded_world(products=listings, days=days, seed=SEED)
        plan = Plan(world=world, days=days, seed=SEED)
        scenario = Scenario(plan, database.pool, database.data_dir)
        set_up_s = CLOCK.monotonic() - at
        report_progress(f"simulated: {listings:,} listings entered in {set_up_s:.1f} s")
        at = CLOCK.monotonic()
        scenario.run(lambda at_s: report_progress(f"simulated: {at_s / 3600:.0f} h"))
        took_s = CLOCK.monotonic() - at
        with database.pool.connection() as connection:
            counts = connection.execute(CALLS).fetchone()
            where = version_of(connection)
        calls, price_calls = counts or (0, 0)
        row = (
            "rolling",
            f"{listings:,}",
            f"{days:g}",
            f"{calls:,}",
            f"{price_calls:,}",
            f"{took_s:.1f}",
            f"{days * DAY_S / took_s:,.0f}",
            f"{took_s * 1000 / max(1, calls):.1f}",
        )
        show(
            "simulation: the real engine and store in virtual time, every law checked",
            (
                "policy",
                "listings",
                "days",
                "calls",
                "priced",
                "real s",
                "sim s per s",
                "ms per call",
            ),
            [row],
            where,
            f"without {set_up_s:.1f} s to draw the world and enter the listings; seed {SEED}",
        )
