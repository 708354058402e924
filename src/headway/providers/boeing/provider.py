"""The record of Boeing: the supplier of the settings, and of entries with another credential."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway.core.catalog.listings import MAIN, LimitKey
from headway.errors import ConfigError
from headway.providers.boeing.limits import EARLY, limit_key_of, supplier_resource
from headway.providers.boeing.settings import BoeingAccess, BoeingSettings
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
    from collections.abc import Callable, Mapping

    from headway.core.limits.transitions import Resource
    from headway.providers.boeing.client import BoeingSupplier
    from headway.providers.recordings import RecordingRule

SECRETS = ("client_secret", "password")


@dataclass(frozen=True, slots=True, kw_only=True)
class MainEntry:
    """The supplier of the settings."""

    client_id: str
    username: str
    url: str
    name: str = MAIN
    kind: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def _main(settings: BoeingSettings) -> tuple[SupplierEntry, Secrets]:
    entry = MainEntry(
        client_id=settings.boeing_client_id,
        username=settings.boeing_username,
        url=settings.boeing_url,
    )
    client_secret = settings.boeing_client_secret.get_secret_value()
    password = settings.boeing_password.get_secret_value()
    return entry, {"client_secret": client_secret, "password": password}


def _limits(settings: BoeingSettings) -> Mapping[str, Resource]:
    return {"boeing": _limit(settings, _main(settings)[0])}


def _limit_key(entry: SupplierEntry) -> LimitKey:
    return limit_key_of(entry.client_id)


def _limit(settings: BoeingSettings, entry: SupplierEntry) -> Resource:
    return supplier_resource(settings, _limit_key(entry))


def _pace(settings: BoeingSettings, _: SupplierEntry) -> SupplierPace:
    return SupplierPace(
        seats=settings.batch_size, calls_per_min=settings.rate_limit, gap_s=settings.rate_gap_s
    )


def _access(entry: SupplierEntry | SupplierSetup, secrets: Secrets) -> BoeingAccess:
    return BoeingAccess(
        client_id=entry.client_id,
        client_secret=secrets.get("client_secret", ""),
        username=entry.username,
        password=secrets.get("password", ""),
    )


def _prepare(settings: BoeingSettings, setup: SupplierSetup) -> SupplierSetup:
    if setup.options:
        raise ConfigError(f"boeing has no option {next(iter(setup.options))}")
    from headway.providers.boeing.client import check_access

    url, access = setup.url or settings.boeing_url, _access(setup, setup.secrets)
    check_access(url, access, called=lambda field: field)
    return setup


def _open(
    context: ProviderContext,
    read_entry: Callable[[], SupplierEntry],
    read_secrets: Callable[[], Secrets],
) -> BoeingSupplier:
    from headway.providers.boeing.api import api_of
    from headway.providers.boeing.client import BoeingSupplier

    settings: BoeingSettings = context.settings
    entry = read_entry()
    return BoeingSupplier(
        entry.url or settings.boeing_url,
        _access(entry, read_secrets()),
        seats=settings.batch_size,
        api=api_of(settings),
        **context.client_arguments(timeout_s=settings.boeing_timeout_s),
        renewed=None if entry.name == MAIN else lambda: _access(entry, read_secrets()),
    )


def _recording(settings: BoeingSettings) -> RecordingRule:
    from headway.providers.boeing.recordings import recording_rule

    return recording_rule(settings)


BOEING = Provider(
    name="boeing",
    title="Boeing",
    limits=_limits,
    supplier=SupplierRole(
        limit_key=_limit_key,
        limit=_limit,
        pace=_pace,
        prepare=_prepare,
        open=_open,
        secrets=SECRETS,
        main=_main,
        default_url=lambda settings: str(settings.boeing_url),
        sign_in_early=EARLY,
    ),
    settings=(
        "HEADWAY_BOEING_CLIENT_ID",
        "HEADWAY_BOEING_CLIENT_SECRET",
        "HEADWAY_BOEING_USERNAME",
        "HEADWAY_BOEING_PASSWORD",
    ),
    recording=_recording,
)
