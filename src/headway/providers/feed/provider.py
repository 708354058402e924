"""The record of feed: a supplier that operators add, one for each price list."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Resource, Window
from headway.errors import ConfigError
from headway.providers.feed.settings import check_address, read_options
from headway.providers.provider import (
    Provider,
    ProviderContext,
    Secrets,
    SupplierEntry,
    SupplierPace,
    SupplierRole,
    SupplierSetup,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headway.providers.feed.client import FeedSupplier
    from headway.providers.feed.state import FeedStates

KIND = "feed"
MINUTE_S, JITTER_S = 60.0, 2.5


class FeedSettings(Protocol):
    """The settings that a price list needs."""

    data_dir: Path


def _limit_key(entry: SupplierEntry) -> LimitKey:
    return LimitKey(f"{KIND}:{entry.client_id}")


def _limit(_: FeedSettings, entry: SupplierEntry) -> Resource:
    limit = read_options(entry.url, entry.options).limit
    window = Window(limit=limit, span_s=MINUTE_S, jitter_s=JITTER_S)
    return Resource(key=_limit_key(entry), rules=(window,))


def _pace(_: FeedSettings, entry: SupplierEntry) -> SupplierPace:
    options = read_options(entry.url, entry.options)
    return SupplierPace(seats=options.seats, calls_per_min=options.limit, is_list=True)


def _prepare(_: FeedSettings, setup: SupplierSetup) -> SupplierSetup:
    if setup.client_id or setup.username:
        raise ConfigError("a feed has no client id and no user name; it has --url")
    check_address(setup.url)
    read_options(setup.url, setup.options)
    if not setup.secrets.get("token", "").isprintable():
        raise ConfigError("token holds line ends or control characters; enter it again")
    return replace(setup, client_id=hashlib.sha256(setup.url.encode()).hexdigest()[:16])


def _states(context: ProviderContext, entry: SupplierEntry) -> FeedStates:
    from headway.providers.feed.state import FeedStates

    return FeedStates(
        _limit_key(entry),
        token_store=context.token_store,
        vault=context.open_vault(),
        clock=context.clock,
    )


def _open(
    context: ProviderContext,
    read_entry: Callable[[], SupplierEntry],
    read_secrets: Callable[[], Secrets],
) -> FeedSupplier:
    from headway.providers.feed.client import FeedSupplier

    settings: FeedSettings = context.settings
    entry = read_entry()
    return FeedSupplier(
        _limit_key(entry),
        read_entry=read_entry,
        read_secrets=read_secrets,
        states=_states(context, entry),
        folder=settings.data_dir.expanduser() / "feeds",
        clock=context.clock,
        transport=context.transport,
    )


def _accept(context: ProviderContext, entry: SupplierEntry) -> str:
    held = _states(context, entry).accept()
    return (
        f"{entry.name}: lists of about {held.held_rows:,} rows are accepted; the list is read again"
        " at the next try"
    )


FEED = Provider(
    name=KIND,
    title="Price list",
    supplier=SupplierRole(
        limit_key=_limit_key,
        limit=_limit,
        pace=_pace,
        prepare=_prepare,
        open=_open,
        accept=_accept,
        optional_secrets=("token",),
    ),
)
