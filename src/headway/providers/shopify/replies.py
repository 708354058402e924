"""Read a shop's reply into values; pure, and prepared for any bytes.

A malformed reply raises UnreadableError: after a write it is then unknown whether it was done. This
module reads the outer layer and the errors; `product_replies` reads what the shop shows.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn

from headway.core.catalog.storefront import Cost, WriteResult, WriteVerdict
from headway.errors import (
    InvariantError,
    PermanentError,
    RequestRefusedError,
    SuspendedError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnreadableError,
)
from headway.providers import reply_rows
from headway.providers.access_scopes import list_scopes
from headway.providers.excerpt import RETRY_AFTER_S_MAX, excerpt
from headway.providers.reply_rows import load
from headway.providers.shopify.access_scopes import GRANT, denied_scopes

PROVIDER = "shopify"
POINTS_MAX = 1_000_000_000

VERDICTS = {
    "CHANGE_FROM_QUANTITY_STALE": WriteVerdict.STALE,
    "COMPARE_QUANTITY_STALE": WriteVerdict.STALE,
    # Made meanwhile, as by a request whose reply was lost: find it, and take it over.
    "HANDLE_NOT_UNIQUE": WriteVerdict.STALE,
    "INVALID_INVENTORY_ITEM": WriteVerdict.UNKNOWN,
    "PRODUCT_DOES_NOT_EXIST": WriteVerdict.UNKNOWN,
    "PRODUCT_VARIANT_DOES_NOT_EXIST": WriteVerdict.UNKNOWN,
    "ITEM_NOT_STOCKED_AT_LOCATION": WriteVerdict.UNSTOCKED,
}
# Some mutations return no code, only a message.
GONE = re.compile(
    r"(does not|doesn't) exist|(not|couldn't be) found|not be found|the product was deleted",
    re.IGNORECASE,
)
ALREADY_ACTIVE = re.compile(r"already (active|stocked)", re.IGNORECASE)
# These name the product, and so every variant of it that was sent.
SHARED = {"PRODUCT_DOES_NOT_EXIST", "PRODUCT_SUSPENDED"}
CONCURRENT = re.compile(r"request is currently in progress", re.IGNORECASE)
MISMATCH = re.compile(r"same idempotency key cannot be used", re.IGNORECASE)
NO_ACCESS = {"ACCESS_DENIED", "SHOP_INACTIVE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopUserError:
    """One error in a shop's reply, at the top or inside a payload; `field` is its path."""

    code: str
    message: str
    field: tuple[str, ...] = ()

    @property
    def is_denied_field(self) -> bool:
        """True if it denies one field of a row, which is null then; the rest may be read."""
        is_inside = len(self.field) > 1 and not self.field[-1].isdigit()
        return self.code == "ACCESS_DENIED" and is_inside

    @property
    def reason(self) -> str:
        """The message, with the path of its field unless it names that itself."""
        names = [part for part in self.field if not part.isdigit()]
        last = names[-1].removesuffix("Id").lower() if names else ""
        if last in self.message.replace(" ", "").lower():
            return self.message
        return excerpt(f"{'.'.join(self.field)}: {self.message}".encode(errors="replace"))

    def index(self, count: int) -> int | None:
        """Return which of so many items it names, if it names one."""
        numbers = [int(part) for part in self.field if part.isascii() and part.isdigit()]
        return numbers[0] if numbers and numbers[0] < count else None

    @property
    def verdict(self) -> WriteVerdict:
        """The verdict on the item that it names."""
        if self.code in VERDICTS:
            return VERDICTS[self.code]
        if not self.code and ALREADY_ACTIVE.search(self.message):
            return WriteVerdict.STALE
        if not self.code and GONE.search(self.message) and "locationId" not in self.field:
            return WriteVerdict.UNKNOWN
        return WriteVerdict.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopReply:
    """A reply's outer layer: its data, its errors, and what it cost."""

    data: Mapping[str, Any]
    faults: tuple[ShopUserError, ...]
    cost: Cost | None
    warnings: tuple[str, ...] = ()

    def refuse(self) -> None:
        """Raise the error at the top of a reply; nothing was done, unless a reply was lost.

        A search that the shop made without one of its conditions is an error too.
        """
        if self.warnings:
            text = f"the shop ignored a part of our search ({self.warnings[0]}); upgrade headway"
            raise RequestRefusedError(text, provider=PROVIDER)
        for fault in self.faults:
            _raise_idempotency(fault)
            if fault.code == "THROTTLED":
                wait_s = _wait_s(self.cost)
                text = f"{PROVIDER} is throttling: {fault.message}"
                raise ThrottledError(text, provider=PROVIDER, status=200, retry_after_s=wait_s)
            if fault.code == "MAX_COST_EXCEEDED":
                raise PermanentError(f"too much for one call: {fault.message}", provider=PROVIDER)
        if not any(self.data.values()):
            self._deny()

    def check_storable(self) -> None:
        """Raise if the data holds a character that no table takes."""
        try:
            text = json.dumps(self.data, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            text = b"\\u0000"
        if b"\\u0000" in text:
            unreadable("a character that cannot be stored")

    def whole(self, name: str) -> Any:  # noqa: ANN401 - JSON, of whatever shape
        """Return the one field of a read, which had no errors at all.

        Nothing where an error was is not the same as nothing there.
        """
        self.check_read(name)
        if self.data.get(name) is None:
            self._lacks(name)
        return self.data[name]

    def check_read(self, name: str) -> None:
        """Raise if the read of this field had any error, unless it only denies fields of rows."""
        if self.data.get(name) is None:
            self._deny()
        if any(not fault.is_denied_field for fault in self.faults):
            self._deny()
            self._lacks(name)

    def payload(self, name: str) -> Mapping[str, Any]:
        """Return the payload of a single write."""
        payload = self.data.get(name)
        if not isinstance(payload, dict):
            self._lacks(name)
        return payload

    def faults_of(self, name: str) -> list[ShopUserError]:
        """Return the user errors of a single write, from its payload."""
        faults = user_faults(self.payload(name))
        return self._lacks(name) if faults is None else faults

    def _deny(self) -> None:
        for fault in self.faults:
            if fault.code in NO_ACCESS:
                needs = list_scopes(denied_scopes(fault.message)) or "its scopes"
                raise SuspendedError(
                    f"the shop denies access: {fault.message}; the app needs {needs}: {GRANT}",
                    provider=PROVIDER,
                )

    def _lacks(self, name: str) -> NoReturn:
        answers = self.faults[0].reason if self.faults else "and no error"
        unreadable(f"no usable {name}: {answers}")


def unreadable(reason: str) -> NoReturn:
    """Raise UnreadableError in one line."""
    reply_rows.unreadable(PROVIDER, reason)


def read_reply(body: bytes) -> ShopReply:
    """Read the outer layer of a reply; raises UnreadableError."""
    try:
        document = load(body, PROVIDER)
    except UnreadableError:
        document = None
    if not isinstance(document, dict):
        unreadable(f"no JSON object: {excerpt(body) or 'an empty body'}")
    data, errors = document.get("data"), document.get("errors") or []
    if not isinstance(errors, list):
        errors = [{"message": str(errors)}]
    return ShopReply(
        data=data if isinstance(data, dict) else {},
        faults=tuple(_fault(error) for error in errors),
        cost=_cost(document.get("extensions")),
        warnings=_warnings(document.get("extensions")),
    )


def read_shop(body: bytes) -> tuple[str, str]:
    """Return the address and the name of the shop that answers; raises UnreadableError."""
    try:
        fields = json.loads(body)["data"]["shop"]
        return str(fields["myshopifyDomain"]), str(fields["name"])
    except (ValueError, KeyError, TypeError, RecursionError):
        unreadable("no shop")


def user_faults(payload: object) -> list[ShopUserError] | None:
    """Return the user errors of a payload; None if it is no payload."""
    errors = payload.get("userErrors") if isinstance(payload, dict) else None
    return [_fault(error) for error in errors] if isinstance(errors, list) else None


def share(faults: Sequence[ShopUserError], count: int) -> list[WriteResult]:
    """Share the errors of a write that was done whole or not at all among its items.

    The items that are named get their verdict; the others are not done, and not at fault.
    """
    if not faults:
        return [WriteResult(verdict=WriteVerdict.DONE)] * count
    named: dict[int, WriteResult] = {}
    # Of two errors about an item, the one with a code says more.
    faults = sorted(faults, key=lambda fault: not fault.code)
    for fault in faults:
        _raise_idempotency(fault)
        index = fault.index(count)
        if fault.code in SHARED or count == 1:
            places = list(range(count))
        else:
            places = [] if index is None else [index]
        for place in places:
            named.setdefault(place, WriteResult(verdict=fault.verdict, reason=fault.reason))
    why = "another item of the same call was at fault" if named else faults[0].reason
    others = WriteResult(verdict=WriteVerdict.AGAIN, reason=f"not done: {why}")
    return [named.get(place, others) for place in range(count)]


def read_aliased(reply: ShopReply, names: Mapping[str, int]) -> dict[str, list[WriteResult]]:
    """Read the payloads of aliased writes, each of so many items.

    One that is missing may have been done: it is read back. If all are missing, the shop did not
    answer at all.
    """
    faults = {name: user_faults(reply.data.get(name)) for name in names}
    if all(own_faults is None for own_faults in faults.values()):
        reply.payload(next(iter(names)))
        unreadable("no user errors")
    answers = {}
    for name, count in names.items():
        own_faults = faults[name]
        if own_faults is None:
            own = [fault.message for fault in reply.faults if fault.field[:1] == (name,)]
            lost = WriteResult(
                verdict=WriteVerdict.STALE, reason=f"no answer: {(own or ['no reason fields'])[0]}"
            )
            answers[name] = [lost] * count
        else:
            answers[name] = share(own_faults, count)
    return answers


def _raise_idempotency(fault: ShopUserError) -> None:
    if fault.code == "IDEMPOTENCY_CONCURRENT_REQUEST" or CONCURRENT.search(fault.message):
        raise TimedOutError("the same write is still under way in the shop", provider=PROVIDER)
    if fault.code == "IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED":
        # It is read back, and then written under another key.
        raise TransientError(f"the shop failed in this write: {fault.message}", provider=PROVIDER)
    if fault.code == "IDEMPOTENCY_KEY_PARAMETER_MISMATCH" or MISMATCH.search(fault.message):
        raise InvariantError(f"one idempotency key was used for two writes: {fault.message}")


def _fault(error: object) -> ShopUserError:
    """Read an error of either kind; whatever it lacks, it stays an error."""
    fields = error if isinstance(error, dict) else {}
    extensions = fields.get("extensions")
    code = fields.get("code") or (extensions.get("code") if isinstance(extensions, dict) else None)
    path = fields.get("field") or fields.get("path") or ()
    message = excerpt(str(fields.get("message") or "").encode(errors="replace"))
    return ShopUserError(
        code=code if isinstance(code, str) else "",
        message=message
        or excerpt(str(code or "").encode(errors="replace"))
        or "an error without a text",
        field=tuple(str(part) for part in path) if isinstance(path, list) else (),
    )


def _warnings(extensions: object) -> tuple[str, ...]:
    """Return what the shop ignored in our searches: field and reason."""
    searches = extensions.get("search") if isinstance(extensions, dict) else None
    entries = searches if isinstance(searches, list) else ()
    return tuple(
        excerpt(f"{warning.get('field')}: {warning.get('message')}".encode(errors="replace"))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("warnings"), list)
        for warning in entry["warnings"]
        if isinstance(warning, dict)
    )


def _cost(extensions: object) -> Cost | None:
    cost = extensions.get("cost") if isinstance(extensions, dict) else None
    if not isinstance(cost, dict) or (requested := _points(cost, "requestedQueryCost")) is None:
        return None
    bucket = cost.get("throttleStatus")
    bucket = bucket if isinstance(bucket, dict) else {}
    return Cost(
        requested=requested,
        actual=_points(cost, "actualQueryCost"),
        available=_points(bucket, "currentlyAvailable"),
        capacity=_points(bucket, "maximumAvailable") or None,
        restore_per_s=_points(bucket, "restoreRate") or None,
    )


def _points(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= POINTS_MAX and isfinite(value) else None


def _wait_s(cost: Cost | None) -> float | None:
    if cost is None or cost.available is None or cost.restore_per_s is None:
        return None
    lacking = cost.requested - cost.available
    return min(max(lacking / cost.restore_per_s, 0.0), RETRY_AFTER_S_MAX)
