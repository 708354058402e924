"""The laws, checked at every operation that a worker makes, against a copy of the tables.

The copy holds each listing's row as it was after the last operation that we observed. So if an
operation changes a row that it must not touch, this shows at once, and in the hourly comparison.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from headway.clock import Clock
from headway.core.catalog.lifecycle import Settlement
from headway.core.catalog.listings import Listing, Outcome, Priority, Sku
from headway_lab.simulation.blast_radius import Bystanders
from headway_lab.simulation.deadlines import Deadlines
from headway_lab.simulation.desired_versions import DesiredVersions
from headway_lab.simulation.evidence import ListingRow, ScheduleEvidence
from headway_lab.simulation.faults import AffectedParts
from headway_lab.simulation.figures import Figures
from headway_lab.simulation.forecast_checks import ForecastChecks
from headway_lab.simulation.isolation import Isolation
from headway_lab.simulation.pauses import PauseChecks
from headway_lab.simulation.truth import ReferenceReader, Served, ShownState, difference, fields_of
from headway_lab.simulation.violation_log import ViolationLog

# Fields that a failed call, a release or a rescue must not change.
UNCHANGED_FIELDS = (
    "next_sync_at", "priority", "is_active", "consecutive_failures", "missing_count",
    "last_successful_sync", "observed", "desired", "desired_version", "held_reason",
)  # fmt: skip
MASS_HOLD_TEXT = "ran out of stock within a day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The numbers that the laws speak of."""

    seats: int
    failures_max: int
    missing_confirmations: int
    currency: str
    guard_move: Decimal
    is_overloaded: bool = False


class Laws:
    """Checks every operation on the schedule against the laws."""

    def __init__(
        self,
        *,
        violations: ViolationLog,
        evidence: ScheduleEvidence,
        clock: Clock,
        rules: Rules,
        affected: AffectedParts,
        reference: ReferenceReader,
        figures: Figures,
        versions: DesiredVersions,
        deadlines: Deadlines,
        bystanders: Bystanders,
        isolation: Isolation | None = None,
        pauses: PauseChecks,
        forecasts: ForecastChecks,
    ) -> None:
        self._violations = violations
        self._evidence = evidence
        self._clock = clock
        self._rules = rules
        self._affected = affected
        self._reference = reference
        self._figures = figures
        self._versions = versions
        self._deadlines = deadlines
        self._bystanders = bystanders
        self._isolation = isolation
        self._pauses = pauses
        self._forecasts = forecasts
        self._rows = {row.id: row for row in evidence.all_rows()}
        self._leased: set[str] = set()
        self._ids: dict[Sku, list[str]] = defaultdict(list)
        for row in self._rows.values():
            self._ids[row.sku].append(row.id)
        self.rescued = 0
        self.refused = 0
        self.retry_seats: Counter[int] = Counter()
        violations.enable(("L2", "L5", "L6", "L8", "L9", "L10"))
        if not rules.is_overloaded:
            violations.enable(("L3",))

    # -- one operation each ------------------------------------------------------------------

    def claimed(
        self, listings: Sequence[Listing], *, now: datetime, owner: str, lease_until: datetime
    ) -> None:
        """Check a claim: no listing twice, all sellers of a SKU, no seat empty without need."""
        skus = {listing.sku for listing in listings}
        for listing in listings:
            row = self._rows[listing.id]
            if row.is_leased:
                self._violations.add(
                    "L5", f"{listing.sku} claimed though {row.lease_owner} holds it"
                )
            if listing.fence <= row.fence:
                self._violations.add(
                    "L5", f"{listing.sku} claimed under the old fence {listing.fence}"
                )
            if (listing.user_id, listing.sku) != (row.user_id, row.sku):
                self._violations.add(
                    "L10", f"row of {row.user_id} came as one of {listing.user_id}"
                )
            if not row.is_active:
                self._violations.add("L5", f"{listing.sku} claimed though it is parked")
        self._pauses.claimed(listings)
        self._deadlines.claimed(listing.id for listing in listings)
        self._check_seats(skus, {listing.id for listing in listings}, now)
        if listings:
            self._forecasts.call_sent(self._clock.monotonic())
        for listing in listings:
            self._forecasts.in_call(listing.id, self._clock.monotonic())
            self._leased.add(listing.id)
            self._rows[listing.id] = self._rows[listing.id]._replace(
                sync_status="syncing",
                fence=listing.fence,
                lease_owner=owner,
                lease_until=lease_until,
            )
        self._count_retries(listings)
        if self._isolation is not None:
            self._isolation.claimed(listings, now=now, failing_count=lambda: self.failing_count)
        self.check_ages()

    def called(self, skus: Sequence[str]) -> None:
        """Check that a request may be sent, and its parts; a token request has none."""
        self._pauses.called(f"{len(skus)} parts" if skus else "to sign in")
        self._bystanders.called(skus)
        if len(set(skus)) != len(skus):
            self._violations.add("L2", f"a SKU took two seats of one call: {sorted(skus)}")
        if len(skus) > self._rules.seats:
            self._violations.add("L2", f"{len(skus)} SKUs in a call of {self._rules.seats} seats")

    def settled(
        self, settlements: Sequence[Settlement], refused: int, served: Served | None
    ) -> list[Sku]:
        """Check what a settle wrote, row by row; return the SKUs that were read well."""
        held = {
            settlement.listing.id: settlement
            for settlement in settlements
            if self._holds(settlement.listing)
        }
        if refused != len(settlements) - len(held):
            late = len(settlements) - len(held)
            self._violations.add("L5", f"{refused} settles were refused, {late} came too late")
        self.refused += refused
        for old, row in self._refresh({settlement.listing.sku for settlement in settlements}):
            if row.id in held:
                shown = self._check_settled(old, held[row.id], row, served)
                self._note_version(old, row, shown)
            elif row != old:
                self._violations.add("L10", f"{row.user_id}/{row.sku} changed by another's settle")
        self.check_ages()
        return [our.listing.sku for our in held.values() if our.outcome is not Outcome.FAILED]

    def released(self, listings: Sequence[Listing]) -> None:
        """Check that a release changed no listing's failures."""
        self._disturb()
        held_ids = {listing.id for listing in listings if self._holds(listing)}
        self._deadlines.released(held_ids)
        for old, row in self._refresh({listing.sku for listing in listings}):
            if row.id not in held_ids:
                if row != old:
                    self._violations.add("L10", f"{row.user_id}/{row.sku} changed by a release")
                continue
            if row.is_leased:
                self._violations.add("L5", f"{row.sku} was released and is still held")
            self._check_unchanged(old, row, "a failed call")
        self.check_ages()

    def suspicion_reset(self) -> None:
        """Check that a reset of suspicion changed nothing else."""
        for old, row in self._refresh({row.sku for row in self._rows.values() if row.suspicion}):
            self._check_unchanged(old, row, "a reset of suspicion")

    def moved(self, skus: Collection[Sku]) -> None:
        """Check that a policy that moved due times changed nothing else."""
        for old, row in self._refresh(set(skus)):
            if old._replace(next_sync_at=row.next_sync_at) != row:
                self._violations.add("L10", f"{row.user_id}/{row.sku} changed with its due time")

    def rescued_by(self, count: int, now: datetime) -> None:
        """Check that a tick freed exactly the listings whose lease had expired."""
        silent = [
            self._rows[id_]
            for id_ in self._leased
            if (until := self._rows[id_].lease_until) is not None and until < now
        ]
        if count != len(silent):
            self._violations.add("L5", f"{count} listings rescued, {len(silent)} had fallen silent")
        self.rescued += count
        if count:
            self._disturb()
        ids = {row.id for row in silent}
        for old, row in self._refresh({row.sku for row in silent}):
            if row.id not in ids:
                continue
            if row.is_leased or row.fence != old.fence + 1:
                self._violations.add("L5", f"{row.sku} was rescued but keeps its lease or fence")
            self._check_unchanged(old, row, "a rescue")
        self.check_ages()

    # -- what time brings --------------------------------------------------------------------

    def check_ages(self) -> None:
        """Check law L3 now."""
        if self._rules.is_overloaded:
            return
        now_s = self._clock.monotonic()
        for id_ in self._deadlines.overdue(now_s, self._has_evidence):
            row = self._rows[id_]
            age_h = self._deadlines.age_s(id_, now_s) / 3600
            self._violations.add("L3", f"{row.sku} was last read {age_h:.2f} h ago")

    def compare(self, *, is_whole: bool = False) -> None:
        """Compare the table with the copy, in short or whole: every change was observed."""
        if is_whole:
            current: dict[str, Any] = {row.id: row for row in self._evidence.all_rows()}
            known: dict[str, Any] = dict(self._rows)
        else:
            current = self._evidence.briefs()
            known = {id_: row.brief for id_, row in self._rows.items()}
        if current.keys() != known.keys():
            self._violations.add("L6", f"{len(current)} listings in the table, {len(known)} known")
        for id_, row in self._rows.items():
            if id_ in current and current[id_] != known[id_]:
                self._violations.add("L10", f"{row.user_id}/{row.sku} changed without an operation")
        if strays := self._evidence.strays():
            self._violations.add("L10", f"{strays} states belong to no listing", count=strays)
        self.check_ages()

    @property
    def parked(self) -> list[ListingRow]:
        """The listings that are parked."""
        return [row for row in self._rows.values() if not row.is_active]

    @property
    def failing(self) -> list[ListingRow]:
        """The listings with failures of their own."""
        return [row for row in self._rows.values() if row.consecutive_failures > 0]

    @property
    def failing_count(self) -> int:
        """How many listings fail or are parked: they are in no scheduled call."""
        return sum(row.consecutive_failures > 0 for row in self._rows.values())

    @property
    def held(self) -> list[ListingRow]:
        """The listings whose change is held for a person."""
        return [row for row in self._rows.values() if row.held_reason is not None]

    def counted(self) -> list[str]:
        """Return the listings whose age counts: those with no fault of their own."""
        return [id_ for id_ in self._rows if not self._has_evidence(id_)]

    def may_leave_sale(self, id_: str) -> bool:
        """Return True if a failure was counted for a fault of its own, or its line has none."""
        row = self._rows[id_]
        says_none = row.sku in self._affected.contradict and row.held_reason is not None
        return says_none or (self._affected.affects(row.sku) and row.consecutive_failures > 0)

    # -- the parts ---------------------------------------------------------------------------

    def _refresh(self, skus: set[Sku]) -> list[tuple[ListingRow, ListingRow]]:
        """Read the rows of these SKUs again; return each before and after."""
        rows = self._evidence.rows_of(sorted(skus)) if skus else []
        pairs = [(self._rows[row.id], row) for row in rows]
        for row in rows:
            self._rows[row.id] = row
            if not row.is_leased:
                self._leased.discard(row.id)
        for old, row in pairs:
            self._check_price_guard(old, row)
        return pairs

    def _holds(self, listing: Listing) -> bool:
        row = self._rows[listing.id]
        return row.is_leased and row.fence == listing.fence

    def _check_seats(self, skus: set[Sku], taken: set[str], now: datetime) -> None:
        for sku in skus:
            for id_ in self._ids[sku]:
                row = self._rows[id_]
                is_free = row.is_active and not row.is_leased
                if id_ not in taken and is_free and not self._pauses.is_paused(row.user_id):
                    self._violations.add(
                        "L2", f"{sku} of {row.user_id} will need a seat of its own"
                    )
        if 0 < len(skus) < self._rules.seats and (left := self._evidence.left_behind(now)):
            self._violations.add(
                "L2", f"a call leaves with {len(skus)} SKUs while {left} more were eligible"
            )

    def _disturb(self) -> None:
        """Note that calls of this hour have to leave again."""
        if self._isolation is not None:
            self._isolation.disturbed()

    def _count_retries(self, listings: Sequence[Listing]) -> None:
        retries = {listing.sku for listing in listings if listing.priority is Priority.RETRY}
        if retries:
            # Four-hour windows that open at 02:30, as the document on retries has them.
            window = int((self._clock.monotonic() - 9000) // 14_400)
            self.retry_seats[window] += len(retries)

    def _check_settled(
        self, old: ListingRow, settlement: Settlement, row: ListingRow, served: Served | None
    ) -> ShownState | None:
        """Check what was written about a listing; return what its read really showed."""
        if row.is_leased or row.fence != old.fence:
            self._violations.add("L5", f"{row.sku} was settled but is not free under its own fence")
        if settlement.outcome is Outcome.FAILED:
            self._check_charged(old, row, served)
            return None
        if served is None or row.sku not in served.parts:
            self._violations.add("L6", f"{row.sku} was settled as read but the reply lacks it")
            return None
        shown = self._reference.see(served.parts[row.sku])
        part = served.parts[row.sku]
        stocked = [place for place, quantity in part.stock.items() if quantity]
        contradicts = self._affected.is_contradicting(row.sku, served.at_s)
        if contradicts or self._affected.is_renamed(stocked, served.at_s):
            self._check_doubtful(old, row, shown, is_renamed=not contradicts)
        elif row.held_reason is None:
            wrong = difference(shown, self._rules.currency, row.observed, row.desired)
            if wrong:
                self._violations.add("L6", f"{row.sku}: {wrong}")
        else:
            self._check_held(old, row, shown)
        is_moot = row.held_reason is None and row.desired_version == old.desired_version
        self._bystanders.read(row.id, served.at_s)
        self._deadlines.read(row.id, served.at_s, counts=not self._affected.affects(row.sku))
        self._figures.read(
            row.id, served_s=served.at_s, now_s=self._clock.monotonic(), is_moot=is_moot
        )
        return shown

    def _note_version(self, old: ListingRow, row: ListingRow, shown: ShownState | None) -> None:
        """Expect the shop to show what is newly desired."""
        if row.desired is not None and row.desired_version != old.desired_version:
            shop_fields = None if shown is None else shown.shop_fields
            self._versions.want(
                row.id, fields_of(row.desired), shop_fields, self._clock.monotonic()
            )

    def _check_charged(self, old: ListingRow, row: ListingRow, served: Served | None) -> None:
        """Check that a failure which counts against a SKU rests on evidence about that SKU."""
        # A reply may lack a part because of another one that spoils the call.
        is_own = self._affected.affects(row.sku)
        is_missing = is_own and served is not None and row.sku not in served.parts
        is_odd = served is not None and (
            row.sku in served.odd or self._affected.badprice.get(row.sku) is not None
        )
        is_convicted = row.sku in self._affected.poison
        if not (is_missing or is_odd or is_convicted):
            self._violations.add("L8", f"{row.sku} was charged for a failure that is not its own")
        if row.consecutive_failures != old.consecutive_failures + 1:
            self._violations.add("L8", f"{row.sku} was charged {row.consecutive_failures} failures")
        is_withdrawn = is_missing and row.missing_count >= self._rules.missing_confirmations
        # Parked it may leave the sale, but keeps its price and stock.
        is_drafted = not row.is_active and row.desired == _drafted(old.desired)
        if row.desired != old.desired and not is_withdrawn and not is_drafted:
            self._violations.add("L8", f"{row.sku} failed and its desired state moved")
        if not row.is_active and not self._affected.affects(row.sku):
            self._violations.add("L8", f"{row.sku} was parked and nothing is wrong with it")
        if not row.is_active and row.consecutive_failures < self._rules.failures_max:
            self._violations.add(
                "L8", f"{row.sku} parked after {row.consecutive_failures} failures"
            )

    def _check_unchanged(self, old: ListingRow, row: ListingRow, cause: str) -> None:
        for name in UNCHANGED_FIELDS:
            if getattr(old, name) != getattr(row, name):
                self._violations.add("L8", f"{cause} changed {name} of {row.user_id}/{row.sku}")

    def _check_held(self, old: ListingRow, row: ListingRow, shown: ShownState) -> None:
        """Check that a held price stays, and that stock flows all the same."""
        if _money_facts(row.desired) != _money_facts(old.desired):
            self._violations.add("L9", f"{row.sku} is held but its desired price moved")
        if row.desired is None or tuple(sorted(row.desired["quantities"].items())) == shown.stock:
            return
        is_mass = MASS_HOLD_TEXT in (row.held_reason or "")
        if not is_mass or any(quantity for _, quantity in shown.stock):
            self._violations.add("L6", f"{row.sku}: a held price keeps its stock from the shop")

    def _check_doubtful(
        self, old: ListingRow, row: ListingRow, shown: ShownState, *, is_renamed: bool
    ) -> None:
        """Check that a line which contradicts itself is held and raises no stock."""
        if not is_renamed and row.held_reason is None:
            self._violations.add("L9", f"{row.sku} contradicts itself and is believed")
        if old.desired is None or row.desired is None:
            return
        if row.held_reason and _money_facts(row.desired) != _money_facts(old.desired):
            self._violations.add("L9", f"{row.sku} is held but its desired price moved")
        for place, quantity in row.desired["quantities"].items():
            before, really = old.desired["quantities"].get(place, 0), dict(shown.stock)[place]
            if quantity > max(before, really):
                self._violations.add("L9", f"{row.sku} gains stock at {place} by a doubtful line")
            if is_renamed and quantity < min(before, really):
                self._violations.add("L6", f"{row.sku} loses stock at {place} by another name")

    def _check_price_guard(self, old: ListingRow, row: ListingRow) -> None:
        if row.desired is None:
            return
        price, currency = Decimal(row.desired["price"]), row.desired["currency"]
        if price <= 0 or currency != self._rules.currency:
            self._violations.add("L9", f"{row.sku} is to be sold at {price} {currency}")
        if old.desired is None:
            return
        before = Decimal(old.desired["price"])
        low, high = (before * (1 + way * self._rules.guard_move) for way in (-1, 1))
        if not low <= price <= high:
            self._violations.add("L9", f"{row.sku} goes from {before} to {price} without approval")

    def _has_evidence(self, id_: str) -> bool:
        row = self._rows[id_]
        return not row.is_active or row.consecutive_failures > 0 or self._affected.affects(row.sku)


def _drafted(desired: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if desired is None:
        return None
    return {**desired, "quantities": dict.fromkeys(desired["quantities"], 0), "status": "DRAFT"}


def _money_facts(desired: Mapping[str, Any] | None) -> list[Any]:
    return [(desired or {}).get(fact) for fact in ("price", "cost", "compare_at", "currency")]
