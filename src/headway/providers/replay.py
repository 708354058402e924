"""Replay recorded replies through the provider's own client, without network and database."""

import functools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx
from pydantic import AliasChoices, AliasPath, BaseModel

from headway.core.accounts.jobs import Account, PlatformName
from headway.core.accounts.pagination import Page
from headway.core.catalog.listings import AuthStep, LimitKey, Reply, SellerId, Sku
from headway.errors import HeadwayError, InvalidError, ProviderError, UnreadableError
from headway.providers.provider import PlatformRole, Provider, ProviderContext, SupplierRole
from headway.providers.recordings import TOKEN, RecordedReply, RecordingRule
from headway.providers.reply_rows import load
from headway.providers.tokens import ACCESS, REFRESH
from headway.providers.vault import Vault

PLACEHOLDER = "recorded"
VAULT_KEY = "cmVjb3JkZWQtcmVwbGllcy1uZWVkLW5vLXNlY3JldHM="
LIFE = timedelta(days=1)
RECORDS = ("orders", "listings", "customers", "payments", "payment_orders")
NOT_THERE = "not there"
STEPS = (AuthStep.OAUTH, AuthStep.PART_TOKEN)
# What a bug raises in reading a reply.
BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
# None is the answer to a request for a token.
Answer = Page | Reply | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideRow:
    """A row that could not be read, with the field and the reason."""

    kind: str
    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """What Headway understands of one reply.

    `refusal` is the error that the platform reports, as Headway would treat it; `problem` is why
    the reply could not be read at all. `unknown_codes` are values that no list of ours has,
    `missing_fields` those that we use and that some rows lack, with their number.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    set_aside: tuple[SetAsideRow, ...] = ()
    unknown_codes: tuple[str, ...] = ()
    missing_fields: Mapping[str, int] = field(default_factory=dict)
    refusal: str = ""
    problem: str = ""

    @property
    def is_read(self) -> bool:
        """True if nothing of the reply was lost on us."""
        return not self.problem and not self.set_aside


def replay(provider: Provider, recorded: RecordedReply, settings: object) -> Understood:
    """Read a recorded reply as the product reads a real one."""
    try:
        result = answer_of(provider, recorded, settings)
    except UnreadableError as error:
        return Understood(problem=str(error))
    except ProviderError as error:
        return Understood(refusal=f"{error.ended}: {error}")
    except (HeadwayError, *BUGS) as error:
        return Understood(problem=f"{type(error).__name__}: {error}")
    counts, bad = _counted(result)
    rule = RecordingRule() if provider.recording is None else provider.recording(settings)
    return Understood(
        rows={name: count for name, count in counts.items() if count},
        set_aside=tuple(bad),
        unknown_codes=tuple(sorted(set(_unknown_codes(rule, recorded.document)))),
        missing_fields=_missing_fields(rule, recorded),
    )


def answer_of(provider: Provider, recorded: RecordedReply, settings: object) -> Answer:
    """Return what the provider's client makes of a recorded reply; raises ProviderError."""
    context = ProviderContext(
        settings=settings,
        clock=_RecordedClock(recorded.at),
        token_store=_RecordedTokens(recorded),
        open_vault=_vault,
        transport=_RecordedTransport(recorded),
    )
    if recorded.role == "supplier" and provider.supplier is not None:
        return _ask_supplier(provider.supplier, context, recorded)
    if recorded.role == "platform" and provider.platform is not None:
        return _ask_platform(provider.platform, context, recorded)
    raise InvalidError(f"{provider.name} is no {recorded.role}; see: headway providers")


def _ask_supplier(role: SupplierRole, context: ProviderContext, recorded: RecordedReply) -> Answer:
    secrets, values = dict.fromkeys(role.secrets, PLACEHOLDER), recorded.request.values
    supplier = role.open(context, _RecordedEntry, lambda: secrets)
    if recorded.request.what == TOKEN:
        supplier.authenticate(AuthStep(values["step"]))
        return None
    supplier.auth_step()  # it loads the tokens
    reply: Reply = supplier.quote([Sku(sku) for sku in values["skus"]])
    return reply


def _ask_platform(role: PlatformRole, context: ProviderContext, recorded: RecordedReply) -> Answer:
    account = Account(
        id="1",
        user_id=SellerId(PLACEHOLDER),
        platform=PlatformName(recorded.provider),
        shop=recorded.shop,
    )
    client = role.open(context, account)
    if recorded.request.what == TOKEN:
        client.refresh_token()
        return None
    page: Page = client.read(recorded.request)
    return page


def _counted(result: Answer) -> tuple[dict[str, int], list[SetAsideRow]]:
    if isinstance(result, Page):
        counts = {name: len(getattr(result.records, name)) for name in RECORDS}
        bad = [
            SetAsideRow(kind=row.kind, id=row.external_id, reason=row.reason)
            for row in result.records.unreadable
        ]
        return {**counts, NOT_THERE: len(result.missing)}, bad
    if isinstance(result, Reply):
        unread = {**result.faulty, **result.unclear}
        bad = [SetAsideRow(kind="quotes", id=sku, reason=reason) for sku, reason in unread.items()]
        return {"quotes": len(result.quotes), NOT_THERE: len(result.missing)}, bad
    return {"tokens": 1}, []


def _unknown_codes(rule: RecordingRule, value: Any, name: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the values of fields with a fixed set of them that are not in it."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else ((name, item) for item in value)
        for key, item in items:
            yield from _unknown_codes(rule, item, key)
    elif (
        name in rule.strip.codes.keys() - rule.strip.ambiguous and value and isinstance(value, str)
    ):
        is_known = rule.strip.is_code(name, value)
        yield from () if is_known else [f"{name}: {value}"]


def _missing_fields(rule: RecordingRule, recorded: RecordedReply) -> dict[str, int]:
    """Count the rows that lack a field which we use, by the name of the field."""
    if recorded.request.what not in rule.rows:
        return {}
    path, read = rule.rows[recorded.request.what]
    rows = load(recorded.body, recorded.provider)
    for name in path:
        rows = rows.get(name) if isinstance(rows, dict) else None
    counts: Counter[str] = Counter()
    for row in rows if isinstance(rows, list) else [rows]:
        with suppress(ValueError, AttributeError):  # it is set aside, with the reason
            counts.update(set(_unset(read(row))))
    return dict(sorted(counts.items()))


def _unset(model: BaseModel, before: str = "") -> Iterator[str]:
    """Yield the fields that a row does not have, and those of its parts."""
    for name, info in type(model).model_fields.items():
        label = before + _label(info.validation_alias or name)
        if name not in model.model_fields_set:
            yield label
            continue
        value = getattr(model, name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, BaseModel):
                yield from _unset(part, f"{label}.")


def _label(alias: str | AliasPath | AliasChoices) -> str:
    if isinstance(alias, AliasChoices):
        return _label(alias.choices[0])
    return ".".join(map(str, alias.path)) if isinstance(alias, AliasPath) else alias


@functools.cache
def _vault() -> Vault:
    return Vault([VAULT_KEY])


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedEntry:
    """The supplier's entry; nothing of it reaches a network."""

    name: str = PLACEHOLDER
    client_id: str = PLACEHOLDER
    username: str = PLACEHOLDER
    url: str = ""
    kind: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedToken:
    name: str
    secret: bytes
    expires_at: datetime
    version: int = 1


class _RecordedTokens:
    """A store with the tokens that the recorded request needed, and no other."""

    def __init__(self, recorded: RecordedReply) -> None:
        values, is_token = recorded.request.values, recorded.request.what == TOKEN
        if recorded.role == "platform":
            self._names: Sequence[str] = [REFRESH if is_token else ACCESS]
        else:
            step = values.get("step") if is_token else None
            self._names = STEPS[: STEPS.index(step)] if step in STEPS else STEPS
        self._expires_at = recorded.at + LIFE

    def load(self, limit_key: LimitKey) -> Sequence[_RecordedToken]:  # noqa: ARG002 - as the port
        secret = _vault().encrypt(PLACEHOLDER)
        return [
            _RecordedToken(name=str(name), secret=secret, expires_at=self._expires_at)
            for name in self._names
        ]

    def save(self, *_: object, **__: object) -> int | None:
        return 2

    def invalidate(self, *_: object, **__: object) -> None:
        pass

    def move(self, *_: object, **__: object) -> bool:
        return True

    def begin_refresh(self, *_: object, **__: object) -> bool:
        return True

    def end_refresh(self, *_: object, **__: object) -> None:
        pass


class _RecordedClock:
    """The time at which a reply was recorded."""

    is_real = False

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, *_: object) -> None:
        raise AssertionError("a replay never sleeps")

    def event(self) -> threading.Event:
        return threading.Event()


class _RecordedTransport(httpx.BaseTransport):
    """Answers every request with the recorded reply."""

    def __init__(self, recorded: RecordedReply) -> None:
        self._recorded = recorded

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        recorded = self._recorded
        return httpx.Response(
            recorded.status,
            headers=dict(recorded.headers),
            stream=httpx.ByteStream(recorded.body),
            request=request,
        )
