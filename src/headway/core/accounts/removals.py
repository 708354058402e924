"""Decide when a listing is removed: a platform's list that does not show it proves little.

Platforms repeat and omit rows, and serve lists empty for hours. A walk counts only if it read as
many different rows as the platform reports. A listing is removed if two complete walks, hours
apart, did not show it. If most listings are missing, or all of a list, the removal is held: it
takes five walks.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

WALKS_MIN, WALKS_HELD = 2, 5
# Walks that follow each other more closely may meet the same fault, and count as one.
WALKS_APART = timedelta(hours=4)
# More than so many, and more than this share of the listings, is a mass removal.
MASS_MIN, MASS_SHARE = 10, 0.5
DIGEST_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalEvidence:
    """What the last complete walks show, after the newest of them.

    `walks` are the instants at which they began, the oldest first. Of the `known` listings,
    `missing` were not shown by the last two; `emptied` of these were in a list that is empty now,
    and `confirmed` were not shown by any of the walks.
    """

    walks: Sequence[datetime]
    known: int = 0
    missing: int = 0
    emptied: int = 0
    confirmed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalDecision:
    """Which listings are removed: those not read since then; or why that is held."""

    since: datetime | None = None
    held_reason: str | None = None


def counted_walks(walks: Iterable[datetime], begun_at: datetime) -> tuple[datetime, ...]:
    """Return the complete walks that count, including one that began at this instant."""
    earlier = tuple(walk for walk in walks if walk <= begun_at)
    if earlier and begun_at - earlier[-1] < WALKS_APART:
        return earlier
    return (*earlier, begun_at)[-WALKS_HELD:]


def decide_removal(evidence: RemovalEvidence) -> RemovalDecision:
    """Return what is removed, or why it is held."""
    walks, missing, known = evidence.walks, evidence.missing, evidence.known
    if len(walks) < WALKS_MIN or not missing:
        return RemovalDecision()
    reason = ""
    if evidence.emptied:
        reason = f"a list that had {evidence.emptied} listings is empty"
    elif missing > MASS_MIN and missing > MASS_SHARE * known:
        reason = f"{missing} of {known} listings are missing at once"
    if not reason:
        return RemovalDecision(since=walks[-WALKS_MIN])
    is_proven = len(walks) >= WALKS_HELD and evidence.confirmed > 0
    held_reason = f"{reason}; they are removed once five complete walks agree"
    return RemovalDecision(
        since=walks[0] if is_proven else None,
        held_reason=None if is_proven and evidence.confirmed == missing else held_reason,
    )


def with_rows(tally: Mapping[str, Any], ids: Iterable[str], total: int | None) -> dict[str, Any]:
    """Return the tally of a list after a page: the different rows so far, and the reported number.

    The tally is JSON: it is kept in the cursor. If the number changes, the smallest counts.
    """
    raw = b64decode(tally.get("rows", ""))
    rows = {raw[at : at + DIGEST_BYTES] for at in range(0, len(raw), DIGEST_BYTES)}
    rows |= {sha256(id_.encode(errors="replace")).digest()[:DIGEST_BYTES] for id_ in ids}
    totals = [number for number in (tally.get("total"), total) if number is not None]
    return {
        "rows": b64encode(b"".join(sorted(rows))).decode(),
        "total": min(totals, default=None),
    }


def is_complete(tally: Mapping[str, Any]) -> bool:
    """Return True if as many different rows were read as the platform reported."""
    total: int | None = tally.get("total")
    return total is not None and len(b64decode(tally.get("rows", ""))) >= DIGEST_BYTES * total


def is_empty(tally: Mapping[str, Any]) -> bool:
    """Return True if the list had no rows."""
    return not tally.get("rows")
