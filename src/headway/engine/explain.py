"""Explain: which rule delays a listing, until when, in a sentence a merchant understands.

Law L13: every state of a row has an answer, and a waiting row's answer names an instant.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from headway.core.catalog.listings import CLOCKS_APART_MAX, Priority
from headway.core.pauses import longest
from headway.core.reasons import (
    Explanation,
    ListingPosition,
    ListingState,
    describe_pause,
    format_time,
)
from headway.core.timetable.next_call import NextCallReason, SupplierQueue, next_call
from headway.core.timetable.seats import URGENT, is_suspect, suspects_max
from headway.engine.rules import TICK_EVERY

NO_LOGIN = (
    "It was never read, and this process has no login for the supplier: unless a worker has one,"
    " nothing is read. `headway doctor` names what is missing."
)


def reasons(
    position: ListingPosition, queue: SupplierQueue, now: datetime, *, lacks_login: bool = False
) -> Explanation:
    """Return why this listing is not being read right now; never None."""
    if not position.is_active:
        return _stopped(position, now)
    answer = _going_on(position, queue, now)
    if lacks_login and position.last_successful_sync is None:
        answer = replace(answer, sentence=f"{NO_LOGIN} {answer.sentence}")
    if not _is_blocked(position):
        return answer
    return replace(answer, sentence=f"Not published: {position.last_error}. {answer.sentence}")


def _going_on(position: ListingPosition, queue: SupplierQueue, now: datetime) -> Explanation:
    """Return what a listing that is read now and then waits for."""
    if position.sync_status == "syncing":
        return _held(position, now)
    if position.pauses or position.is_paused:
        return _paused(position, now)
    return _foreseen(_waiting(position, queue, now), queue.joins_call.get(position.sku), now)


def _waiting(position: ListingPosition, queue: SupplierQueue, now: datetime) -> Explanation:
    """Return the first thing that holds it back."""
    if position.priority not in URGENT and position.next_sync_at > now:
        return _not_due(position, now)
    if position.priority is Priority.RETRY and queue.retries_from is not None:
        return _window_full(position, queue.retries_from, now)
    return _closed(position, queue, now) or _seat_rule(position, queue, now)


def _foreseen(answer: Explanation, joins_call_at: datetime | None, now: datetime) -> Explanation:
    """Add when it will be in a call, where that can be foreseen."""
    if joins_call_at is None:
        return answer
    when = format_time(joins_call_at, now)
    more = "" if when in answer.sentence else f" It is read at about {when}."
    return replace(answer, sentence=answer.sentence + more, until=max(now, joins_call_at))


def in_shop(position: ListingPosition, now: datetime) -> str:
    """Return the state of a listing in its shop, and what it waits for there."""
    if _is_blocked(position):
        return "The shop does not have it."
    if position.held_reason is not None:
        stock = "its stock is held with it" if position.holds_stock else "its stock is updated"
        return (
            f"Its change is held: {position.held_reason}. Decide with `headway approve` or"
            f" `headway reject`; until then {stock}."
        )
    if position.is_rejected:
        return "Its quote was rejected; the next one that differs is used."
    if position.shop_status is None:
        return f"{position.user_id} has no shop; connect one with `headway connect`."
    if position.shop_status != "connected":
        return f"Its shop is disconnected: {position.shop_reason}."
    return _in_connected_shop(position, now)


def _in_connected_shop(position: ListingPosition, now: datetime) -> str:
    if position.is_shop_in_rehearsal:
        return _in_rehearsal(position, now)
    pause = longest(pause for pause in position.pauses if pause.stops_writes)
    if pause is not None:
        waits = "" if position.push_at is None else " A change waits until then."
        return (
            f"Nothing is written to the shop: {pause.what} is {describe_pause(pause, now)}.{waits}"
        )
    return _on_the_way(position, position.push_at, now)


def _in_rehearsal(position: ListingPosition, now: datetime) -> str:
    start = (
        f"Its shop is in rehearsal, waiting for confirmation: see `headway rehearse"
        f" {position.user_id}`, then start it."
    )
    if position.push_error and position.push_at is not None:
        when = format_time(max(now, position.push_at), now)
        return (
            f"{start} It would not be written: {position.push_error}. It is read again at {when}."
        )
    return f"{start} Nothing is written to it before."


def _on_the_way(position: ListingPosition, push_at: datetime | None, now: datetime) -> str:
    if push_at is None:
        since = position.applied_at
        shown = "Nothing was read for the shop yet." if since is None else "The shop shows it."
        if since is None or not position.unsold_count:
            return shown
        return (
            f"{shown} {position.unsold_count:,} more in stock are not sold: the shop lacks a"
            " location of HEADWAY_LOCATIONS."
        )
    if position.shop_wait_until is not None and position.shop_wait_until > now:
        until = format_time(position.shop_wait_until, now)
        return f"A change waits; its shop is tried again at {until}: {position.shop_wait_reason}."
    if position.is_in_bulk:
        return "Its price is on the way to the shop in a bulk operation."
    if position.push_error:
        when = format_time(max(now, push_at), now)
        return f"The shop refused it: {position.push_error}. It is tried again at {when}."
    return "On its way to the shop."


def place(position: ListingPosition) -> str:
    """Write the listing's place in the queue."""
    if position.has_more:
        return f"more than {position.ahead_count:,}"
    return f"{position.ahead_count + 1:,}"


def _is_blocked(position: ListingPosition) -> bool:
    """Return True if a read succeeded with an error: the part cannot be published."""
    return position.sync_status == "success" and bool(position.last_error)


def _stopped(position: ListingPosition, now: datetime) -> Explanation:
    if position.removed_at is not None:
        return Explanation(
            state=ListingState.REMOVED,
            sentence=(
                f"Removed {format_time(position.removed_at, now)}: it is neither read nor written."
                " headway revive brings it back."
            ),
        )
    if _is_blocked(position):
        return Explanation(
            state=ListingState.BLOCKED,
            sentence=(
                f"Not published: {position.last_error}. It is not read until it is published again."
            ),
        )
    if position.sync_status != "parked":
        return Explanation(
            state=ListingState.INACTIVE,
            sentence="Switched off: it is not read until somebody switches it on again.",
        )
    since = f" since {format_time(position.last_sync_at, now)}" if position.last_sync_at else ""
    return Explanation(
        state=ListingState.PARKED,
        sentence=(
            f"Parked{since} after {_failures(position)}; it is left alone until a person revives"
            " it. Check the part number with the supplier first."
        ),
    )


def _held(position: ListingPosition, now: datetime) -> Explanation:
    until = position.lease_until or now
    if until >= now:
        return Explanation(
            state=ListingState.READING,
            sentence=(
                f"Being read now by {position.lease_owner}, which must report by"
                f" {format_time(until, now)}."
            ),
            until=until,
        )
    free_at = max(now, until + CLOCKS_APART_MAX) + TICK_EVERY
    return Explanation(
        state=ListingState.SILENT,
        sentence=(
            f"{position.lease_owner} claimed it and stopped responding; its lease expired at"
            f" {format_time(until, now)}, and a running Headway releases it by"
            f" {format_time(free_at, now)}."
        ),
        until=free_at,
    )


def _paused(position: ListingPosition, now: datetime) -> Explanation:
    pause = longest(position.pauses)
    if pause is None:
        return Explanation(
            state=ListingState.PAUSED,
            sentence="Its pause has ended; a running Headway resumes it in its next round.",
            until=now + TICK_EVERY,
        )
    due = "due" if position.priority in URGENT or position.next_sync_at <= now else "not due"
    return Explanation(
        state=ListingState.PAUSED,
        sentence=(
            f"It is {due} ({position.priority}), but {pause.what} is {describe_pause(pause, now)}."
            " It is not"
            " read until then."
        ),
        until=pause.until,
    )


def _not_due(position: ListingPosition, now: datetime) -> Explanation:
    due = format_time(position.next_sync_at, now)
    if position.consecutive_failures:
        return Explanation(
            state=ListingState.BACKOFF,
            sentence=f"Set aside after {_failures(position)}; tried again from {due}.",
            until=position.next_sync_at,
        )
    return Explanation(
        state=ListingState.NOT_DUE,
        sentence=f"Not due before {due}; earlier if a call has a free seat.",
        until=position.next_sync_at,
        place=place(position),
    )


def _window_full(position: ListingPosition, opens_at: datetime, now: datetime) -> Explanation:
    return Explanation(
        state=ListingState.WINDOW,
        sentence=(
            f"Set aside after {_failures(position)}; this window has no seat left for retries, the"
            f" next one opens at {format_time(opens_at, now)}."
        ),
        until=opens_at,
    )


def _closed(position: ListingPosition, queue: SupplierQueue, now: datetime) -> Explanation | None:
    """Return what stops every call, if anything does."""
    blocked_until = queue.breaker.blocked_until(now)
    if blocked_until is not None:
        return Explanation(
            state=ListingState.NO_ANSWER,
            sentence=(
                f"{_due_at(position, now)}, but the supplier does not answer"
                f" ({queue.breaker.reason or 'no reason given'}); the next try is at"
                f" {format_time(blocked_until, now)}."
            ),
            until=blocked_until,
            place=place(position),
        )
    if queue.paused_until is not None and queue.paused_until > now:
        return Explanation(
            state=ListingState.RATE_LIMITED,
            sentence=(
                f"{_due_at(position, now)}, but calls wait"
                f" ({queue.pause_reason or 'no reason given'}) until"
                f" {format_time(queue.paused_until, now)}."
            ),
            until=queue.paused_until,
            place=place(position),
        )
    return None


def _seat_rule(position: ListingPosition, queue: SupplierQueue, now: datetime) -> Explanation:
    """Return in which call this listing is, and what that call waits for."""
    call = next_call(queue, now)
    leaves_at = call.leaves_at or now
    if call.why in {NextCallReason.SEATS, NextCallReason.SLACK}:
        due = {candidate.sku for candidate in queue.front if candidate.next_sync_at <= now}
        return Explanation(
            state=ListingState.COMPANY,
            sentence=(
                f"{_due_at(position, now)}; waits for more parts until"
                f" {format_time(leaves_at, now)} at the latest"
                f" ({len(due)} of {queue.rule.seats} seats taken)."
            ),
            until=leaves_at,
            place=place(position),
        )
    if any(seat.sku == position.sku for seat in call.seats):
        return Explanation(
            state=ListingState.PERMIT,
            sentence=(
                f"{_due_at(position, now)}; it has a seat in the next call, possible at"
                f" {format_time(leaves_at, now)}."
            ),
            until=leaves_at,
            place=place(position),
        )
    return _later(position, queue, leaves_at, now)


def _later(
    position: ListingPosition, queue: SupplierQueue, leaves_at: datetime, now: datetime
) -> Explanation:
    """Return when a listing that is not in the next call will have a seat."""
    seats = queue.rule.seats
    calls_before = max(1, position.ahead_count // seats)
    until = queue.joins_call.get(position.sku, leaves_at + calls_before * queue.pace)
    has_more = position.has_more and position.sku not in queue.joins_call
    if is_suspect(position.suspicion) and position.ahead_count < seats:
        others = suspects_max(position.suspicion, seats) - 1
        return Explanation(
            state=ListingState.SUSPECT,
            sentence=(
                f"{_due_at(position, now)}, but it was in a call {_times(position.suspicion)} when"
                " it"
                f" failed, so it shares a call with at most {others} others like it; it may be read"
                f" from {format_time(until, now)}."
            ),
            until=until,
            place=place(position),
        )
    ahead = f"{position.ahead_count:,}" + (" or more" if position.has_more else "")
    return Explanation(
        state=ListingState.PERMIT,
        sentence=(
            f"{_due_at(position, now)}; {ahead} are before it; with a call every"
            f" {_seconds(queue.pace)} it is read at about {format_time(until, now)}"
            f"{' at the earliest' if has_more else ''}."
        ),
        until=until,
        place=place(position),
    )


def _due_at(position: ListingPosition, now: datetime) -> str:
    if position.priority in URGENT:
        return f"Goes first ({position.priority})"
    due = f"Due since {format_time(position.next_sync_at, now)}"
    return f"{due} after {_failures(position)}" if position.consecutive_failures else due


def _failures(position: ListingPosition) -> str:
    count = position.consecutive_failures
    failures = f"{count} failures in a row" if count != 1 else "a failure"
    return f"{failures} ({position.last_error})" if position.last_error else failures


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"
