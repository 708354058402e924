"""A price list behind the engine's port `Supplier`.

One request reads the whole list, before any SKU is asked for; `quote` then answers from memory, a
call's worth of SKUs at a time. The list is stored as a file, so a restart reads it from there until
it is due again. A list that is truncated, empty or much shorter than the last good one is held
back: the request fails with the reason, and nothing that is known changes.
"""

import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import httpx

from headway.clock import Clock
from headway.core.catalog.listings import AuthStep, LimitKey, MakeDue, Reply, Sku
from headway.errors import TransientError, UnreadableError, UnsentError
from headway.providers.feed.price_list import LISTS, PriceList, read_file
from headway.providers.feed.rows import PROVIDER
from headway.providers.feed.settings import path_of, read_options
from headway.providers.feed.state import FeedStates, ListState
from headway.providers.http import HttpResponse, build_client, check_status, download
from headway.providers.provider import Secrets, SupplierEntry

LOG = logging.getLogger(__name__)
BYTES_MAX = 256_000_000
TIMEOUT_S = 30.0
PIECE_BYTES = 65_536
BAD_ROWS_SHOWN = 5


class FeedSupplier:
    """One price list."""

    def __init__(
        self,
        limit_key: LimitKey,
        *,
        read_entry: Callable[[], SupplierEntry],
        read_secrets: Callable[[], Secrets],
        states: FeedStates,
        folder: Path,
        clock: Clock,
        timeout_s: float = TIMEOUT_S,
        bytes_max: int = BYTES_MAX,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._limit_key = limit_key
        self._read_entry = read_entry
        self._read_secrets = read_secrets
        self._states = states
        self._path = folder / f"{limit_key.replace(':', '-')}.list"
        self._clock = clock
        self._timeout_s = timeout_s
        self._bytes_max = bytes_max
        self._transport = transport
        entry = read_entry()
        self._name, self._url = entry.name, entry.url
        self._options = read_options(entry.url, entry.options)
        self._state = ListState()
        self._list: PriceList | None = None

    def __repr__(self) -> str:
        return f"FeedSupplier({self._limit_key})"

    @property
    def limit_key(self) -> LimitKey:
        """The key of this list's limit."""
        return self._limit_key

    @property
    def seats(self) -> int:
        """How many SKUs are answered from the list at a time."""
        return self._options.seats

    def close(self) -> None:
        """Nothing stays open: each request has a connection of its own."""

    def auth_step(self) -> AuthStep | None:
        """Return the step that reads the list, if it is due or not known here."""
        if not self._is_fresh():
            self._state = self._states.load()  # another worker may have read it meanwhile
            self._list = self._stored_list() if self._is_fresh() else self._list
        return None if self._list is not None and self._is_fresh() else AuthStep.LIST

    def authenticate(
        self,
        step: AuthStep,
        *,
        send_by_s: float = math.inf,
        make_due: MakeDue = lambda _: None,
    ) -> bool:
        """Read the list and return True; False if no request was made. Raises ProviderError."""
        assert step is AuthStep.LIST, f"a feed has no {step}"
        owner = self._states.begin()
        if owner is None:
            return False
        try:
            if self.auth_step() is None or self._clock.monotonic() > send_by_s:
                return False
            self._refresh(owner, make_due)
        finally:
            self._states.end(owner)
        return True

    def quote(self, skus: Sequence[Sku]) -> Reply:
        """Return the quotes of these SKUs from the list; raises ProviderError."""
        assert 0 < len(skus) <= self.seats, f"{len(skus)} SKUs for {self.seats} seats"
        if self._list is None:
            raise UnsentError("the price list was not read yet", provider=PROVIDER)
        return self._list.reply(skus)

    def _is_fresh(self) -> bool:
        checked_at = self._state.checked_at
        return checked_at is not None and self._clock.now() < checked_at + self._options.interval

    def _stored_list(self) -> PriceList | None:
        """Return the list in the file if that is the last good one."""
        if not self._state.sha256 or _hash_of(self._path) != self._state.sha256:
            return None
        try:
            return LISTS.load(self._path, self._state.sha256, self._options)
        except UnreadableError:  # the options changed, and the list is to be read with the new ones
            return None

    def _refresh(self, owner: str, make_due: MakeDue) -> None:
        entry = self._read_entry()  # an operator may have changed the options
        self._options = read_options(entry.url, entry.options)
        state, spool = self._state, self._path.with_suffix(".new")
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            has_stored = bool(state.sha256) and _hash_of(self._path) == state.sha256
            digest, answer = self._receive(spool, has_stored=has_stored)
            if answer is not None and answer.status == httpx.codes.NOT_MODIFIED:
                digest = state.sha256
            if not has_stored or digest != state.sha256:
                prices = self._checked(spool, owner)
                before = self._stored_list() if has_stored else None
                # Before the list is stored: a crash in between makes the next read do it again.
                make_due(None if before is None else prices.changed_since(before))
                spool.replace(self._path)
                LISTS.keep(self._path, digest, self._options, prices)
                self._report_bad_rows(prices)
        finally:
            spool.unlink(missing_ok=True)
        self._list = LISTS.load(self._path, digest, self._options)
        now = self._clock.now()
        headers = httpx.Headers() if answer is None else answer.headers
        self._state = ListState(
            sha256=digest,
            etag=headers.get("etag", state.etag if digest == state.sha256 else ""),
            modified=headers.get("last-modified", state.modified if digest == state.sha256 else ""),
            rows=len(self._list),
            baseline=len(self._list),
            checked_at=now,
        )
        self._states.save(self._state, owner=owner, until=now + self._options.interval)

    def _checked(self, spool: Path, owner: str) -> PriceList:
        """Return a good list; raises UnreadableError for one that is held back."""
        rows = 0
        try:
            prices = read_file(spool, self._options)
            rows, least = len(prices), self._state.baseline * (1 - self._options.shrink)
            if rows == 0:
                reason = "the price list has no usable row"
                if prices.bad_rows:
                    reason += f"; {prices.bad_rows[0]}"
            elif self._state.baseline and rows <= least:
                reason = (
                    f"the price list has {rows:,} usable rows, the last good one had"
                    f" {self._state.baseline:,}"
                )
            else:
                return prices
        except UnreadableError as error:
            reason = str(error)
        if token := self._read_secrets().get("token"):  # the list may echo it
            reason = reason.replace(token, "***")
        held = replace(self._state, held_rows=rows, held_reason=reason)
        self._states.save(held, owner=owner, until=self._clock.now())
        advice = f" If that is right, run: headway supplier accept {self._name}" if rows else ""
        text = f"{reason}. It is held back and the last good values stay.{advice}"
        raise UnreadableError(text, provider=PROVIDER)

    def _receive(self, spool: Path, *, has_stored: bool) -> tuple[str, HttpResponse | None]:
        """Write the list to a file; return its hash, and the answer if it came over HTTP."""
        path, digest = path_of(self._url), hashlib.sha256()
        with spool.open("wb") as target:

            def write(piece: bytes) -> None:
                digest.update(piece)
                target.write(piece)

            if path is not None:
                _copy(path, write, self._bytes_max)
                return digest.hexdigest(), None
            answer = self._download(write, has_stored=has_stored)
        return digest.hexdigest(), answer

    def _download(self, write: Callable[[bytes], object], *, has_stored: bool) -> HttpResponse:
        headers, token = {}, self._read_secrets().get("token", "")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if has_stored and self._state.etag:
            headers["If-None-Match"] = self._state.etag
        if has_stored and self._state.modified:
            headers["If-Modified-Since"] = self._state.modified
        with build_client(
            self._url, clock=self._clock, timeout_s=self._timeout_s, transport=self._transport
        ) as client:
            answer = download(
                client,
                client.build_request("GET", self._url, headers=headers),
                clock=self._clock,
                timeout_s=self._timeout_s,
                provider=PROVIDER,
                write=write,
                bytes_max=self._bytes_max,
                hide=(token,),
            )
        if answer.status == httpx.codes.NOT_MODIFIED and has_stored:
            return answer
        check_status(answer, provider=PROVIDER, shows_body=True)
        return answer

    def _report_bad_rows(self, prices: PriceList) -> None:
        if prices.bad_count:
            shown = "; ".join(prices.bad_rows[:BAD_ROWS_SHOWN])
            LOG.warning("%s: %d bad rows set aside: %s", self, prices.bad_count, shown)


def _copy(path: Path, write: Callable[[bytes], object], bytes_max: int) -> None:
    """Copy a file; raises TransientError, and UnreadableError if it is too large."""
    try:
        with path.open("rb") as source:
            size = 0
            for piece in _pieces(source):
                size += len(piece)
                if size > bytes_max:
                    text = f"{path} is larger than {bytes_max // 1_000_000} MB"
                    raise UnreadableError(text, provider=PROVIDER)
                write(piece)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TransientError(f"{path} cannot be read: {reason}", provider=PROVIDER) from None


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: source.read(PIECE_BYTES), b"")


def _hash_of(path: Path) -> str:
    """Return the hash of a file; empty if there is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as source:
            for piece in _pieces(source):
                digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()
