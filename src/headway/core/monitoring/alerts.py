"""What is wrong now and needs a person, or at least a look; the worst first.

Decides what counts as an alert, how bad it is and what is said of it. From which number on is in
the table of rules; for how long it must be so, and whom to tell, is the watch's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headway.core.catalog.listings import SellerId
from headway.core.monitoring.metrics import AlertMetrics, ConnectionMetric, TierMetric
from headway.core.monitoring.rules import FAILURES_MIN, LIMITS, WORSE, Severity
from headway.core.pauses import Pause, PauseKind
from headway.core.reasons import format_duration, format_time

DAY = timedelta(days=1)
# A token that nobody renews in that time is gone before most people are back from a holiday.
TOKEN_NOTICE = timedelta(days=7)
Limits = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing that is wrong; `link` is the page where something can be done about it.

    `subject` tells apart what may be wrong with several at once: a shop, a tier, a pause. `under`
    is the subject of the same alert that would explain this one, if it stands: a shop's platform.
    """

    name: str
    severity: Severity
    sentence: str
    since: datetime | None = None
    count: int = 1
    seller: SellerId | None = None
    link: str = "/"
    subject: str = ""
    under: str = ""
    runbook: str = field(init=False)

    def __post_init__(self) -> None:
        """Name the page that says what to do about it."""
        object.__setattr__(self, "runbook", f"/runbook/{self.name}")


def alerts(metrics: AlertMetrics, limits: Limits = LIMITS) -> list[Alert]:
    """Return what is wrong, the worst first, then what has been wrong for longest."""
    found = [alert for check in CHECKS for alert in check(metrics, limits)]
    rank = list(Severity)
    return sorted(
        found, key=lambda each: (rank.index(each.severity), each.since or metrics.now, each.name)
    )


def _supplier(metrics: AlertMetrics, limits: Limits) -> Iterator[Alert]:
    now = metrics.now
    for name, breaker in (("", metrics.breaker), *metrics.others.items()):
        if not breaker.is_open:
            continue
        since = breaker.opened_at or now
        yield Alert(
            name="supplier_down",
            severity=Severity.CRITICAL,
            since=since,
            subject=name,
            sentence=(
                f"The supplier {name + ' ' if name else ''}has not answered for"
                f" {format_duration(now - since)} ({breaker.reason or 'no reason given'}); tried"
                " again at"
                f" {format_time(breaker.open_until or now, now)}."
            ),
        )
    until = metrics.calls_paused_until
    wait_s = max(metrics.hour.permit_wait_s, (until - now).total_seconds() if until else 0.0)
    if wait_s > limits["permit_wait"]:
        yield Alert(
            name="permit_wait",
            severity=Severity.WARNING,
            sentence=(
                f"No call to the supplier leaves before {format_time(until, now)}"
                f" ({metrics.calls_paused_reason or 'no reason given'})."
                if until is not None and until > now
                else f"The next permit comes {format_duration(timedelta(seconds=wait_s))} later"
                " than the limit's pace explains."
            ),
        )


def _hour(metrics: AlertMetrics, limits: Limits) -> Iterator[Alert]:
    hour = metrics.hour
    shares = (
        ("error_share", "calls to the supplier", hour.calls_failed, hour.calls, "/limits"),
        ("reads_failed", "parts that were asked for", hour.reads_failed, hour.reads, "/trouble"),
    )
    for name, what, failed, of_all, link in shares:
        share = failed / of_all if of_all else 0.0
        if failed >= FAILURES_MIN and share > limits[name]:
            yield Alert(
                name=name,
                severity=_worse(is_critical=share > WORSE * limits[name]),
                count=failed,
                link=link,
                sentence=f"{failed:,} of {of_all:,} {what} failed in the last hour ({share:.0%}).",
            )
    least = limits["few_synced"]
    if hour.reads < least <= hour.reads + hour.overdue:
        yield Alert(
            name="few_synced",
            severity=Severity.CRITICAL,
            count=hour.reads,
            sentence=(
                f"{_of(hour.reads, 'part')} read in the last hour, and {hour.overdue:,} have been"
                " due for longer than that."
            ),
        )
    if hour.overdue > limits["overdue"]:
        yield Alert(
            name="overdue",
            severity=Severity.WARNING,
            count=hour.overdue,
            link="/timetable",
            sentence=f"{_of(hour.overdue, 'part')} due for more than an hour.",
        )
    if hour.stuck:
        yield Alert(
            name="stuck",
            severity=_worse(is_critical=hour.stuck > limits["stuck"]),
            count=hour.stuck,
            sentence=f"{_of(hour.stuck, 'part or job', 'parts or jobs')} in hand though the lease"
            " ended long ago: no tick rescues them.",
        )


def _worse(*, is_critical: bool) -> Severity:
    return Severity.CRITICAL if is_critical else Severity.WARNING


def _pauses(metrics: AlertMetrics, _limits: Limits) -> Iterator[Alert]:
    for each in metrics.pauses:
        end = (
            f"until {format_time(each.until, metrics.now)}"
            if each.until
            else "until somebody resumes"
        )
        why = f": {each.reason}" if each.reason else ""
        yield Alert(
            name="paused",
            severity=Severity.WARNING if each.is_wide else Severity.NOTICE,
            since=each.since,
            seller=each.seller,
            subject=" ".join(filter(None, (each.kind, each.seller, each.sku, each.supplier))),
            sentence=f"{_paused(each)} is paused by {each.actor or 'somebody'} {end}{why}.",
        )


def _paused(pause: Pause) -> str:
    what = {
        PauseKind.ALL: "Everything",
        PauseKind.SUPPLIER: f"Reading {pause.what}",
        PauseKind.SELLER: f"Everything of {pause.seller}",
        PauseKind.LISTING: f"{pause.sku} of {pause.seller}",
    }
    return what[pause.kind]


def _freshness(metrics: AlertMetrics, limits: Limits) -> Iterator[Alert]:
    if metrics.stale > limits["stale"]:
        oldest = metrics.oldest_read_at
        age = f"; the oldest read is {format_duration(metrics.now - oldest)} old" if oldest else ""
        yield Alert(
            name="stale",
            severity=Severity.WARNING,
            since=oldest + DAY if oldest and oldest + DAY < metrics.now else None,
            count=metrics.stale,
            link="/parts?state=stale",
            sentence=f"{_of(metrics.stale, 'listing')} not read for more than 24 h{age}.",
        )
    for each in metrics.promises:
        if each.burn_fast >= limits["promise_burning"]:
            yield _promise("promise_burning", Severity.CRITICAL, each, each.burn_fast)
        # Beside the other too: what slipped before it burnt is not over because it burns.
        if each.burn_slow >= limits["promise_slipping"]:
            yield _promise("promise_slipping", Severity.WARNING, each, each.burn_slow)


def _promise(name: str, severity: Severity, sign: TierMetric, burn: float) -> Alert:
    return Alert(
        name=name,
        severity=severity,
        since=sign.at,
        subject=sign.tier,
        link="/freshness",
        sentence=(
            f"Sellers who pay for {sign.tier} are promised data no older than"
            f" {format_duration(timedelta(minutes=sign.promise_min))}; it was kept for"
            f" {sign.kept_share:.1%} of their listings, and breaks {burn:.1f} times as often as"
            " the promise allows."
        ),
    )


def _listings(metrics: AlertMetrics, limits: Limits) -> Iterator[Alert]:
    if metrics.held > limits["held"]:
        yield Alert(
            name="held",
            severity=Severity.WARNING,
            since=metrics.held_since,
            count=metrics.held,
            link="/changes",
            sentence=f"{_of(metrics.held, 'change')} held for a person to approve or reject.",
        )
    if metrics.parked:
        yield Alert(
            name="parked",
            severity=_worse(is_critical=metrics.parked > limits["parked"] * metrics.total),
            count=metrics.parked,
            link="/trouble",
            sentence=f"{_of(metrics.parked, 'listing')} parked after repeated failure; see why,"
            " then"
            " revive.",
        )
    if metrics.refused:
        is_lasting = metrics.refusals_in_a_row > limits["refused_by_shop"]
        yield Alert(
            name="refused_by_shop",
            severity=Severity.WARNING if is_lasting else Severity.NOTICE,
            count=metrics.refused,
            link="/trouble",
            sentence=f"{_of(metrics.refused, 'listing')} not taken by the shop; it is tried again.",
        )
    if metrics.failing:
        yield Alert(
            name="failing",
            severity=Severity.NOTICE,
            count=metrics.failing,
            link="/trouble",
            sentence=f"{_of(metrics.failing, 'listing')} failing at the supplier;"
            " tried again later.",
        )


def _accounts(metrics: AlertMetrics, _limits: Limits) -> Iterator[Alert]:
    for each in metrics.connections:
        if each.is_connected and not each.trouble:
            continue
        yield Alert(
            name="shop_refused" if each.is_connected else "disconnected",
            severity=Severity.WARNING if each.is_connected else Severity.CRITICAL,
            seller=each.seller,
            subject=" ".join(filter(None, (each.seller, each.name))),
            under=each.name.partition(" ")[0] if each.seller else "",
            link="/accounts",
            sentence=_said_of(each),
        )
    for token in metrics.tokens:
        if token.expires_at > metrics.now + TOKEN_NOTICE:
            continue
        is_gone = token.expires_at <= metrics.now
        when = format_time(token.expires_at, metrics.now)
        yield Alert(
            name="token_expiring",
            severity=Severity.CRITICAL if is_gone else Severity.WARNING,
            seller=token.seller,
            subject=f"{token.seller} {token.name}",
            link="/accounts",
            sentence=(
                f"The grant of {token.name} of {token.seller}"
                f" {'ended' if is_gone else 'ends'} at {when}; connect it again."
            ),
        )


def _said_of(sign: ConnectionMetric) -> str:
    said = sign.trouble or "no reason given"
    if sign.seller is None:
        return f"{sign.name.capitalize()} does not answer, whoever's account it is: {said}."
    if sign.is_connected:
        return f"{sign.name} of {sign.seller} does not answer: {said}."
    return f"{sign.name} of {sign.seller} is disconnected: {said}. Connect it again."


def _jobs(metrics: AlertMetrics, limits: Limits) -> Iterator[Alert]:
    if metrics.dead_jobs > limits["dead_jobs"]:
        yield Alert(
            name="dead_jobs",
            severity=Severity.WARNING,
            count=metrics.dead_jobs,
            link="/accounts",
            sentence=f"{_of(metrics.dead_jobs, 'job')} dead after repeated failure; revive when"
            " mended.",
        )
    for each in metrics.quotas:
        if not each.is_spent(metrics.now):
            continue
        is_paused = each.paused_until is not None and each.paused_until > metrics.now
        until = each.paused_until if is_paused else each.room_at
        again = f"; the next call may leave at {format_time(until, metrics.now)}" if until else ""
        spent = "told us to wait" if is_paused else f"has no call left of its {each.limit:,.0f}"
        yield Alert(
            name="quota_spent",
            severity=Severity.WARNING,
            subject=each.platform,
            link="/accounts",
            sentence=f"{each.platform.capitalize()} {spent}{again}.",
        )


def _of(count: int, noun: str, several: str | None = None) -> str:
    return f"1 {noun} is" if count == 1 else f"{count:,} {several or noun + 's'} are"


CHECKS: tuple[Callable[[AlertMetrics, Limits], Iterator[Alert]], ...] = (
    _supplier,
    _hour,
    _pauses,
    _freshness,
    _listings,
    _accounts,
    _jobs,
)
