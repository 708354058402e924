"""The laws of the design, checked against the live database."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from headway.app import App
from headway.app.supplier_queue import supplier_queue
from headway.core.access import Need
from headway.core.accounts.reasons import JobState
from headway.core.catalog.listings import MAIN
from headway.core.laws import replay_windows
from headway.core.limits.daily_shares import DayShare
from headway.core.reasons import format_duration
from headway.core.timetable.outages import Outage, outages
from headway.engine.explain import reasons
from headway.operations.callers import OperatorCaller
from headway.operations.operation import operation
from headway.store.accounts.job_list import JobView
from headway.store.catalog.suppliers import Suppliers
from headway.store.monitoring.blast_radius import BlastRadiusChecks
from headway.store.monitoring.erasure_checks import ErasureChecks
from headway.store.monitoring.job_law_checks import JobLawChecks
from headway.store.monitoring.law_checks import EXAMPLES, Findings, LawChecks
from headway.store.timetable.positions import ListingPositions

OK, BROKEN, IDLE = "ok", "broken", "not in play"
DAY = timedelta(days=1)
MINUTES_A_DAY = 1440
JOBS_ASKED = 200
# The number of suppliers named in a note.
NAMED_MAX = 3
ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LawResult:
    """What the database says about one law."""

    law: str
    """The law's number. Example: `L1`"""
    name: str
    """The law's name. Example: `limit`"""
    verdict: str
    """Whether it holds. Example: `ok`"""
    violations: int = 0
    """How many violations were found."""
    note: str = ""
    """What was checked. Example: `2,880 calls of 24 h`"""
    examples: tuple[str, ...] = ()
    """A few of the violations. Example: `["boeing: 3 calls within 60 s at 12:00"]`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawReport:
    """Whether every law holds, law by law."""

    is_lawful: bool
    """True if every law holds."""
    laws: tuple[LawResult, ...]
    """One entry for each law."""


@operation("GET", "/api/laws", need=Need.OVERSEE, tag="monitoring", name="check_laws")
def laws(caller: OperatorCaller) -> LawReport:
    """Check the laws against the live database; this replays every call of the ledger."""
    results = tuple(law(caller.app) for law in LAWS)
    is_lawful = all(result.verdict != BROKEN for result in results)
    return LawReport(is_lawful=is_lawful, laws=results)


def _judge(law: str, name: str, findings: Findings, note: str = "") -> LawResult:
    return LawResult(
        law=law,
        name=name,
        verdict=BROKEN if findings.count else OK,
        violations=findings.count,
        note=note,
        examples=findings.examples,
    )


def _both(first: Findings, second: Findings) -> Findings:
    """Put together what two questions about one law have found."""
    examples = (*first.examples, *second.examples)[:EXAMPLES]
    return Findings(count=first.count + second.count, examples=examples)


def _limit(app: App) -> LawResult:
    """Replay the whole ledger of every limited resource (L1)."""
    examples: list[str] = []
    call_count = breach_count = 0
    for key, windows in LawChecks(app.pool).windows().items():
        calls = app.limiter.calls_since(key, ALWAYS)
        call_count += len(calls)
        for window in windows:
            breaches = replay_windows(calls, window)
            breach_count += len(breaches)
            examples += [
                f"call {breach.permit_id} of {key} at {breach.begun_at:%Y-%m-%d %H:%M:%S} UTC"
                f" was number {breach.load:g} in {window.span_s:g} s; {breach.limit:g} are allowed"
                for breach in breaches
            ]
    findings = Findings(count=breach_count, examples=tuple(examples[:EXAMPLES]))
    return _judge("L1", "limit", findings, f"{call_count:,} calls replayed")


def _seats(app: App) -> LawResult:
    fill = LawChecks(app.pool).fill(app.limit_key, since=app.clock.now() - DAY)
    share = f"{fill.seats_used / fill.seats_paid:.1%}" if fill.seats_paid else "none yet"
    return LawResult(
        law="L2",
        name="seats",
        verdict=IDLE,
        note=f"needs the queue as it was: `headway simulate` checks it; fill of 24 h: {share}",
    )


def _deadline(app: App) -> LawResult:
    """Compare the age of every good read with what the policy allows (L3)."""
    laws, now, rule = LawChecks(app.pool), app.clock.now(), app.policy
    silences = outages(laws.calls(app.limit_key, since=now - 2 * rule.age_max - DAY), now)
    ages = laws.ages(now, supplier=app.supplier, age_max=rule.age_max, outages=silences)
    share = app.settings.budget_share if rule.is_eager else 1
    seats_a_day = share * app.settings.rate_limit * MINUTES_A_DAY * app.settings.batch_size
    if ages.sku_count > seats_a_day:
        note = f"{ages.sku_count:,} parts, but the limit leaves {seats_a_day:,.0f} seats a day"
        return LawResult(law="L3", name="deadline", verdict=IDLE, note=note)
    notes = [f"no good read older than {format_duration(rule.age_max)}"]
    if ages.late.count:
        notes = [f"good reads older than {format_duration(rule.age_max)}; is headway running?"]
    if ages.excused_count:
        excuse = _excuse(silences) if silences else "they were paused"
        notes.append(f"{ages.excused_count:,} excused, {excuse}")
    if ages.failing_count:
        notes.append(f"{ages.failing_count:,} excused, their own part fails")
    return _judge("L3", "deadline", ages.late, "; ".join(notes))


def _excuse(silences: list[Outage]) -> str:
    total = sum((outage.ends_at - outage.starts_at for outage in silences), timedelta())
    failed = sum(outage.failed_calls for outage in silences)
    return f"the supplier gave no answer for {format_duration(total)} ({failed:,} failed calls)"


def _isolation(app: App) -> LawResult:
    """Compare the retries of the present window with what it has seats for (L4)."""
    window = app.policy.retry_window(app.clock.now(), app.schedule.listed())
    if window is None:
        note = f"`{app.policy.name}` has no windows for retries"
        return LawResult(law="L4", name="isolation", verdict=IDLE, note=note)
    retried = app.schedule.retried_since(window.opens_at)
    note = f"{retried:,} of {window.seats_max:,} retries since {window.opens_at:%H:%M} UTC"
    findings = Findings(count=max(0, retried - window.seats_max), examples=())
    return _judge("L4", "isolation", findings, note)


def _one_owner(app: App) -> LawResult:
    now = app.clock.now()
    findings = _both(LawChecks(app.pool).leases(now), JobLawChecks(app.pool).leases(now))
    return _judge("L5", "one owner", findings)


def _nothing_lost(app: App) -> LawResult:
    return _judge("L6", "nothing lost", LawChecks(app.pool).lost(app.clock.now()))


def _one_effect(app: App) -> LawResult:
    note = "that a shop changes once, `headway simulate` checks in the shop's own log"
    return _judge("L7", "one effect", LawChecks(app.pool).doubled(), note)


def _blame(app: App) -> LawResult:
    return _judge("L8", "blame", LawChecks(app.pool).blamed())


def _no_harm(app: App) -> LawResult:
    return _judge("L9", "no harm", LawChecks(app.pool).harmful(app.settings.currency))


def _row_policies(app: App) -> LawResult:
    findings = _both(LawChecks(app.pool).strays(app.clock.now()), JobLawChecks(app.pool).strays())
    return _judge("L10", "isolation", findings)


def _quota(app: App) -> LawResult:
    """Compare what is used and reserved of every quota with what there is (L11)."""
    count, findings = JobLawChecks(app.pool).quotas(app.clock.now())
    if not count:
        return LawResult(law="L11", name="quota", verdict=IDLE, note="no scope here has a quota")
    note = "; ".join(
        f"{budget.platform}: {budget.used:,.0f} used and {budget.reserved:,.0f} reserved"
        f" of {budget.limit:,.0f}"
        for budget in app.account_queries.budgets(app.clock.now())
    )
    return _judge("L11", "quota", findings, note)


def _fairness(app: App) -> LawResult:
    """Find jobs that no worker has claimed for a day (L12)."""
    laws, now = JobLawChecks(app.pool), app.clock.now()
    if not laws.has_jobs():
        return LawResult(law="L12", name="fairness", verdict=IDLE, note="no account is connected")
    budgets = app.account_queries.budgets(now)
    shut = [budget.platform for budget in budgets if budget.from_at[DayShare.PAID] is not None]
    if shut:
        note = f"{', '.join(shut)}: the day is spent, so its jobs wait; `headway quota` says more"
        return LawResult(law="L12", name="fairness", verdict=IDLE, note=note)
    return _judge("L12", "fairness", laws.starved(now), "no job has been due for a day")


def _reasons(app: App) -> LawResult:
    """Ask for the reason of both ends of every queue (L13)."""
    now = app.clock.now()
    sample = ListingPositions(app.pool).sample(now, supplier=app.supplier)
    queue = supplier_queue(app, now)
    mute = []
    for listing in sample:
        answer = reasons(listing, queue, now)
        is_waiting = listing.is_active and listing.sync_status != "syncing"
        if not answer.sentence or (is_waiting and answer.is_mute(now)):
            mute.append(f"{listing.sku} of {listing.user_id}: no reason, or one that is past")
    jobs = app.account_queries.jobs(now, limit=JOBS_ASKED) if app.supplier == MAIN else []
    mute += [
        f"{job.name}: no reason, or one that is past"
        for job in jobs
        if not job.reason or not _has_end(job, now)
    ]
    findings = Findings(count=len(mute), examples=tuple(mute[:EXAMPLES]))
    return _judge("L13", "reasons", findings, f"{len(sample):,} listings, {len(jobs):,} jobs asked")


def _erased(app: App) -> LawResult:
    """Look for what was erased on request, and for erasures that do not end (L14)."""
    count, findings = ErasureChecks(app.pool).erased(app.clock.now())
    if not count:
        return LawResult(law="L14", name="erased", verdict=IDLE, note="nothing was erased")
    return _judge("L14", "erased", findings, f"{count:,} erasures")


def _blast_radius(app: App) -> LawResult:
    """Find who waits, or was disconnected, because of another's fault (L16)."""
    laws, now = BlastRadiusChecks(app.pool), app.clock.now()
    shared = [budget.platform for budget in app.account_queries.budgets(now)]
    findings = _both(laws.held_up(now), _both(laws.crowded_out(now, shared), laws.disconnected()))
    note = "how late others become because of a fault, `headway simulate` checks"
    return _judge("L16", "blast radius", findings, note)


def _has_end(job: JobView, now: datetime) -> bool:
    """Return True if a job's reason names an end; a pause may last until a person ends it."""
    if job.until is None:
        return job.state is JobState.PAUSED
    return job.until >= now


def _on_each_supplier(law: Callable[[App], LawResult]) -> Callable[[App], LawResult]:
    """Return a law that is checked for every supplier queue, with one combined result."""

    def judged(app: App) -> LawResult:
        names = Suppliers(app.pool).names()
        results = {name: law(app.for_supplier(name)) for name in names}
        if len(results) == 1:
            return results[MAIN]
        broken = {name: result for name, result in results.items() if result.verdict == BROKEN}
        shown = (
            broken
            or {name: result for name, result in results.items() if result.verdict == OK}
            or results
        )
        if len(shown) == len(results) and len({result.note for result in shown.values()}) == 1:
            notes = [next(iter(shown.values())).note]
        else:
            notes = [f"{name}: {result.note}" for name, result in list(shown.items())[:NAMED_MAX]]
            notes += [f"and {len(shown) - NAMED_MAX:,} suppliers more"] * (len(shown) > NAMED_MAX)
        examples = [example for result in shown.values() for example in result.examples]
        return replace(
            next(iter(shown.values())),
            violations=sum(result.violations for result in shown.values()),
            note="; ".join(notes),
            examples=tuple(examples[:EXAMPLES]),
        )

    return judged


LAWS: tuple[Callable[[App], LawResult], ...] = (
    _limit,
    *map(_on_each_supplier, (_seats, _deadline, _isolation)),
    _one_owner,
    _nothing_lost,
    _one_effect,
    _blame,
    _no_harm,
    _row_policies,
    _quota,
    _fairness,
    _on_each_supplier(_reasons),
    _erased,
    _blast_radius,
)
