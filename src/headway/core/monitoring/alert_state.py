"""The watch: of what is wrong each minute, what is news. A blip is not; one cause is told once.

Something fires when it has been wrong without a break for as long as its rule says, and is over
when it has been well for as long; in between it is told again only when it gets worse.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from headway.core.monitoring.alerts import Alert
from headway.core.monitoring.rules import BY_NAME, Severity

Key = tuple[str, str]
RANK = list(Severity)


class AlertPhase(StrEnum):
    """What there is to tell of an alert."""

    FIRED = "fired"
    WORSE = "worse"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """An alert that stands, begins to, or stood: wrong since, well since, told and over when."""

    alert: Alert
    since: datetime
    well_since: datetime | None = None
    fired_at: datetime | None = None
    resolved_at: datetime | None = None

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return (self.alert.name, self.alert.subject)

    @property
    def is_firing(self) -> bool:
        """Whether it was told, and is not over."""
        return self.fired_at is not None and self.resolved_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is to be told of an alert."""

    word: AlertPhase
    state: AlertState


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDecision:
    """What becomes of the states: those to keep, those that were a blip, and what is news."""

    kept: tuple[AlertState, ...]
    dropped: tuple[Key, ...]
    news: tuple[News, ...]


def judge(states: Sequence[AlertState], found: Sequence[Alert], now: datetime) -> AlertDecision:
    """Compare what stood with what is found now; what is only noticed is shown, never told."""
    known = {each.key: each for each in states}
    wrong = {(each.name, each.subject): each for each in found if each.severity != Severity.NOTICE}
    hushed = _hushed(states, wrong.values(), now)
    kept: list[AlertState] = []
    dropped: list[Key] = []
    news: list[News] = []
    for key in sorted(known.keys() | wrong.keys()):
        state, alert = known.get(key), wrong.get(key)
        is_firing = state is not None and state.is_firing
        after: AlertState | None
        if alert is not None and (is_firing or key not in hushed):
            after, word = _wrong(state, alert, now)
        elif state is not None:
            after, word = _well(state, now)
        else:
            continue
        if after is None:
            dropped.append(key)
        else:
            kept.append(after)
        if after is not None and word is not None:
            news.append(News(word=word, state=after))
    return AlertDecision(kept=tuple(kept), dropped=tuple(dropped), news=tuple(news))


def _wrong(
    state: AlertState | None, alert: Alert, now: datetime
) -> tuple[AlertState, AlertPhase | None]:
    if state is None or state.resolved_at is not None:
        state = AlertState(alert=alert, since=now)
    before = state.alert.severity
    is_worse = RANK.index(alert.severity) < RANK.index(before)
    # While it stands it does not get milder: who swings around a line would be told each time.
    worst = alert.severity if is_worse else before
    said = replace(alert, severity=worst if state.is_firing else alert.severity)
    state = replace(state, alert=said, well_since=None)
    if state.fired_at is None:
        if now - state.since < BY_NAME[alert.name].after:
            return state, None
        return replace(state, fired_at=now), AlertPhase.FIRED
    return state, AlertPhase.WORSE if is_worse else None


def _well(state: AlertState, now: datetime) -> tuple[AlertState | None, AlertPhase | None]:
    if state.fired_at is None:
        return None, None
    if state.resolved_at is not None:
        return state, None
    state = replace(state, well_since=state.well_since or now)
    assert state.well_since is not None
    if now - state.well_since < BY_NAME[state.alert.name].over:
        return state, None
    return replace(state, resolved_at=now), AlertPhase.RESOLVED


def _hushed(states: Sequence[AlertState], wrong: Iterable[Alert], now: datetime) -> set[Key]:
    """Return what does not begin now: what stands, or just stood, explains it."""
    found = list(wrong)
    standing = {(each.name, each.subject) for each in found}
    standing |= {each.key for each in states if each.is_firing}
    over = {each.key: each.resolved_at for each in states if each.resolved_at is not None}

    def explains(cause: Key, effect: Alert) -> bool:
        linger = BY_NAME[effect.name].linger
        return cause in standing or (cause in over and now - over[cause] < linger)

    causes = standing | over.keys()
    return {
        (each.name, each.subject)
        for each in found
        for cause in causes
        if cause[0] in BY_NAME[each.name].hushed_by
        or (each.under and cause == (each.name, each.under))
        if explains(cause, each)
    }
