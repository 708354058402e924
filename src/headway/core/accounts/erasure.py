"""What is erased on request: the subject of an erasure, and the proof that remains of it.

An erasure deletes at once what is stored, and leaves hashes that keep it from coming back. The
proof holds no personal data: a kind, numbers, times, and hashes.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId

# No worker holds a lease or a transaction for so long, and every limit of one shop is free again.
SWEEP_AFTER = timedelta(minutes=15)
# An erasure that takes longer has stopped: the law and the alert report it.
OVERDUE_AFTER = timedelta(days=1)
# A shorter id or name of a customer is a part of other words too; it is stored in no text.
WORD_CHARS_MIN = 4
# Where a cursor holds the run in progress, by pages: a replaced word would break it.
RUN = "run"
ERASED = "(erased)"
PROOF_FORMAT = "headway erasure proof 1"
PERSON = "person"


class ErasureKind(StrEnum):
    """What is erased."""

    SELLER = "seller"
    ACCOUNT = "account"
    CUSTOMER = "customer"


class ErasureStatus(StrEnum):
    """How far an erasure is."""

    RUNNING = "running"
    SWEEPING = "sweeping"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedAccount:
    """An account of the seller, as it was when the erasure was requested."""

    id: str
    platform: PlatformName
    shop: str
    owner_id: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureSubject:
    """Names and ids of what is erased, in clear; it is deleted when the erasure is done.

    `words` are names and ids that messages may contain.
    """

    kind: ErasureKind
    user_id: SellerId
    accounts: tuple[ErasedAccount, ...] = ()
    customer_ids: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    order_ids: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    is_stored: bool = True
    """False if nothing is stored of a customer."""

    @property
    def account_ids(self) -> list[str]:
        """The ids of the accounts."""
        return [account.id for account in self.accounts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure, without the data that it is about."""

    id: str
    """The erasure's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    kind: ErasureKind
    """What is erased."""
    status: ErasureStatus
    """How far it is: `sweeping` means that all rows are deleted."""
    cause: str
    """`person`, or the webhook that asked for it. Example: `customers/redact`"""
    actor: str
    """Who asked for it; empty for a webhook. Example: `operations`"""
    seller: SellerId | None
    """Whose data it is; null once the seller is erased."""
    platform: PlatformName | None
    """The platform of the account or customer; null for a seller. Example: `shopify`"""
    subject_hash: str
    """The hash of the seller, shop or customer. Example: `9f86d081884c7d65`"""
    counts: Mapping[str, int]
    """Rows that were deleted or emptied, by table. Example: `{"orders": 130}`"""
    requested_at: datetime
    """When it was requested."""
    erased_at: datetime | None
    """When the last row was deleted; null until then."""
    sweep_at: datetime | None
    """When late writes of earlier workers are looked for; null while rows are deleted."""
    done_at: datetime | None
    """When it was done; null until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureProof:
    """The proof of an erasure, without personal data; `sha256` is of all other fields."""

    format: str
    """The format. Example: `headway erasure proof 1`"""
    id: str
    """The erasure's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    kind: ErasureKind
    """What was erased."""
    platform: str | None
    """The platform; null for a seller. Example: `shopify`"""
    cause: str
    """`person`, or the webhook that asked for it. Example: `customers/redact`"""
    actor: str
    """Who asked for it; empty for a webhook. Example: `operations`"""
    subject_hash: str
    """The salted hash of the seller, shop or customer. Example: `9f86d081884c7d65`"""
    tombstones: tuple[str, ...]
    """Hashes that keep the data from coming back. Example: `["customer 9f86d081884c7d65"]`"""
    counts: Mapping[str, int]
    """Rows that were deleted or emptied, by table. Example: `{"orders": 130}`"""
    requested_at: str
    """When it was requested. Example: `2026-03-04T12:00:00+00:00`"""
    erased_at: str
    """When the last row was deleted. Example: `2026-03-04T12:00:07+00:00`"""
    sha256: str
    """The hash of all other fields. Example: `2c26b46b68ffc68f`"""


def proof_of(erasure: Erasure, tombstones: Iterable[str]) -> ErasureProof:
    """Return the proof of an erasure whose rows are all deleted."""
    assert erasure.erased_at is not None, "nothing is proven before"
    fields: dict[str, Any] = {
        "format": PROOF_FORMAT,
        "id": erasure.id,
        "kind": erasure.kind.value,
        "platform": erasure.platform,
        "cause": erasure.cause,
        "actor": erasure.actor,
        "subject_hash": erasure.subject_hash,
        "tombstones": sorted(tombstones),
        "counts": dict(sorted(erasure.counts.items())),
        "requested_at": erasure.requested_at.isoformat(),
        "erased_at": erasure.erased_at.isoformat(),
    }
    values = {**fields, "kind": erasure.kind, "tombstones": tuple(fields["tombstones"])}
    return ErasureProof(**values, sha256=proof_hash(fields))


def proof_hash(fields: Mapping[str, Any]) -> str:
    """Return the hash of a proof's fields; its own hash is left out."""
    rest = {name: value for name, value in fields.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def packed_subject(subject: ErasureSubject) -> str:
    """Return a subject as JSON."""
    return json.dumps(asdict(subject))


def unpacked_subject(fields: Mapping[str, Any]) -> ErasureSubject:
    """Return the subject that was packed."""
    lists = ("customer_ids", "emails", "order_ids", "words")
    return ErasureSubject(
        kind=ErasureKind(fields["kind"]),
        user_id=fields["user_id"],
        accounts=tuple(ErasedAccount(**account) for account in fields["accounts"]),
        is_stored=fields["is_stored"],
        **{name: tuple(fields[name]) for name in lists},
    )


def account_words(
    accounts: Iterable[ErasedAccount], *, besides: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return what messages call these accounts, except for words that name others too."""
    words = {
        word for account in accounts for word in (account.shop, account.owner_id, account.title)
    }
    return tuple(sorted(word for word in words - set(besides) if len(word) >= WORD_CHARS_MIN))


def customer_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return the ids, names and addresses of customers that are long enough to be found."""
    return tuple(sorted({word for word in words if len(word) >= WORD_CHARS_MIN}))


def scrub(value: Any, words: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON
    """Return a text, or JSON, in which each whole word of these is replaced."""
    if not words:
        return value
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile(
        rf"(?<!\w)(?:{'|'.join(re.escape(word) for word in longest_first)})(?!\w)", re.IGNORECASE
    )
    return _scrubbed(value, pattern)


def scrub_cursor(cursor: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return a job's cursor without these words; a run in progress that has one begins again."""
    run = cursor.get(RUN)
    rest = {name: value for name, value in cursor.items() if name != RUN}
    kept = {RUN: run} if run is not None and scrub(run, words) == run else {}
    return {**scrub(rest, words), **kept}


def _scrubbed(value: Any, pattern: re.Pattern[str]) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return pattern.sub(ERASED, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ERASED if pattern.fullmatch(str(value)) else value
    if isinstance(value, Mapping):
        return {_scrubbed(name, pattern): _scrubbed(item, pattern) for name, item in value.items()}
    if isinstance(value, list):
        return [_scrubbed(item, pattern) for item in value]
    return value


def scalars(value: Any) -> Iterable[str]:  # noqa: ANN401 - any JSON
    """Yield every text and number in JSON: one of them may be an id or an address."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from scalars(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from scalars(item)
