"""`headway doctor`: check database, broker, clock, shops, folder, secrets and settings."""

from __future__ import annotations

import os
import platform
import socket
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway import __version__
from headway.cli.output import AsJson, emit, say, table
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.cli.doctor_checks import DoctorCheck
    from headway.cli.session import Session
    from headway.config import Settings

EXAMPLES = """Examples:

headway doctor

headway doctor --json | jq '.lines[] | select(.verdict != "ok")'
"""
OFFSET_WARN_MS = 2000
SECRET_FILE = "secret.key"  # noqa: S105 - a file's name
OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_READ = stat.S_IRGRP | stat.S_IROTH


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog=EXAMPLES)(doctor)


def doctor(
    *,
    page: Annotated[
        bool, typer.Option("--reference", help="Print the page of all settings, and stop.")
    ] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print an example of headway.toml, and stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this installation and show what to fix.

    Starts the embedded database if none is configured and none runs. Exit code 1 if anything
    fails.
    """
    from headway import config
    from headway.cli.doctor_checks import FAIL, OK, SUPPLIER, DoctorCheck, examine_broker
    from headway.cli.doctor_settings import example_file, reference, settings_in_force
    from headway.config.document_settings import replaced

    if page:
        print(reference(), end="")
        return
    if example:
        print(example_file(), end="")
        return
    lines = [DoctorCheck(subject="headway", verdict=OK, finding=_versions())]
    settings: Settings | None = None
    try:
        settings = config.load()
        lines += [
            DoctorCheck(subject="settings", verdict=OK, finding=line)
            for line in replaced(config.environment())
        ]
    except HeadwayError as error:
        lines.append(DoctorCheck(subject="settings", verdict=FAIL, finding=str(error)))
    else:
        lines += _examine_database(settings)
        lines += examine_broker(settings)
        lines += _examine_host(settings)
        if not any(check.subject == SUPPLIER for check in lines):
            lines.append(_credentials(settings))
    in_force = list(settings_in_force(settings))
    if as_json:
        emit({"lines": lines, "settings": in_force})
    else:
        rows = [(check.subject, check.verdict, check.finding) for check in lines]
        table(("subject", "verdict", "finding"), rows)
        say()
        known = [
            (setting.name, setting.value, setting.source, setting.help) for setting in in_force
        ]
        table(("setting", "value", "from", "meaning"), known)
    if any(check.verdict == FAIL for check in lines):
        raise typer.Exit(1)


def _versions() -> str:
    return f"{__version__} on Python {platform.python_version()}, {platform.system()}"


def _examine_database(settings: Settings) -> Iterator[DoctorCheck]:
    from headway.cli.doctor_checks import (
        FAIL,
        DoctorCheck,
        examine_accounts,
        examine_processes,
        examine_providers,
        examine_rights,
        examine_server,
        examine_shops,
        examine_supplier,
    )
    from headway.cli.session import REAL_TIME, open_session
    from headway.store.monitoring.processes import clock_offset
    from headway.store.server.probe import Pooling, probe, rights

    is_own = settings.database_url is None
    try:
        with open_session(settings, check_schema=is_own) as session:
            asked_at = REAL_TIME.now()
            server = probe(session.app.pool)
            answered_at = REAL_TIME.now()
            yield from examine_server(server, session.place)
            offset = clock_offset(server.clock, asked_at=asked_at, answered_at=answered_at)
            yield _clock(offset / timedelta(milliseconds=1))
            if server.pooling is Pooling.STATEMENT:
                return  # nothing that follows could work
            role_rights = rights(session.app.pool)
            yield from examine_rights(role_rights, server.user, is_own=is_own or session.is_joined)
            if role_rights.closed or not role_rights.has_schema:
                return
            schema = _schema(session)
            yield schema
            if schema.verdict != FAIL:
                yield from examine_processes(session.app)
                yield from examine_shops(session.app)
                yield from examine_accounts(session.app)
                yield from examine_supplier(session.app)
                yield from examine_providers(session.app)
    except HeadwayError as error:
        yield DoctorCheck(subject="database", verdict=FAIL, finding=str(error))


def _clock(offset_ms: float) -> DoctorCheck:
    from headway.cli.doctor_checks import OK, WARN, DoctorCheck

    finding = f"the database's clock differs from this host's by {offset_ms:.0f} ms"
    if abs(offset_ms) <= OFFSET_WARN_MS:
        return DoctorCheck(subject="clock", verdict=OK, finding=finding)
    advice = "the limit still holds, but due times drift; run a time service on both"
    return DoctorCheck(subject="clock", verdict=WARN, finding=f"{finding}; {advice}")


def _schema(session: Session) -> DoctorCheck:
    from headway.cli.doctor_checks import FAIL, OK, WARN, DoctorCheck
    from headway.store import migrate

    version, missing = migrate.current(session.app.pool), migrate.pending(session.app.pool)
    if missing:
        is_fine = all(migration.kind is migrate.MigrationKind.POST for migration in missing)
        when = "once every process is new, run" if is_fine else "run"
        finding = f"{len(missing)} missing, next {missing[0].label}; {when}: headway db upgrade"
        return DoctorCheck(subject="migrations", verdict=WARN if is_fine else FAIL, finding=finding)
    return DoctorCheck(subject="migrations", verdict=OK, finding=f"{version} of {version} applied")


def _examine_host(settings: Settings) -> Iterator[DoctorCheck]:
    folder = settings.data_dir.expanduser()
    yield _folder(folder)
    yield _secret_key(settings, folder)
    yield _port(settings, folder)


def _folder(folder: Path) -> DoctorCheck:
    from headway.cli.doctor_checks import FAIL, OK, WARN, DoctorCheck

    try:
        mode = folder.stat().st_mode
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return DoctorCheck(
                subject="folder", verdict=OK, finding=f"{folder} is made at first use"
            )
        advice = "set HEADWAY_DATA_DIR to a folder you may write to"
        finding = f"{folder}: {error.strerror}; {advice}"
        return DoctorCheck(subject="folder", verdict=FAIL, finding=finding)
    if not stat.S_ISDIR(mode) or not os.access(folder, os.W_OK | os.X_OK):
        finding = f"{folder} cannot be written; set HEADWAY_DATA_DIR to a folder of yours"
        return DoctorCheck(subject="folder", verdict=FAIL, finding=finding)
    if mode & OTHERS_READ:
        finding = f"{folder} can be listed by others; run: chmod go-rwx {folder}"
        return DoctorCheck(subject="folder", verdict=WARN, finding=finding)
    finding = f"{folder} is yours alone ({stat.S_IMODE(mode):04o})"
    return DoctorCheck(subject="folder", verdict=OK, finding=finding)


def _secret_key(settings: Settings, folder: Path) -> DoctorCheck:
    from headway.cli.doctor_checks import FAIL, OK, WARN, DoctorCheck

    key_file = folder / SECRET_FILE
    if settings.secret_key is not None:
        finding = "from HEADWAY_SECRET_KEY; stored credentials are encrypted with it"
        return DoctorCheck(subject="secret key", verdict=OK, finding=finding)
    try:
        mode = key_file.stat().st_mode
    except OSError:
        mode = None
    if mode is not None and mode & OTHERS:
        finding = f"{key_file} can be read by others; run: chmod 600 {key_file}"
        return DoctorCheck(subject="secret key", verdict=FAIL, finding=finding)
    if settings.broker_url is not None:
        finding = f"in {key_file}, of this host alone; set HEADWAY_SECRET_KEY, the same on all"
        return DoctorCheck(subject="secret key", verdict=WARN, finding=finding)
    if mode is None:
        finding = f"none yet; {key_file} is made at first use"
        return DoctorCheck(subject="secret key", verdict=OK, finding=finding)
    finding = f"in {key_file}, for its owner only; keep a copy, apart from your backups"
    return DoctorCheck(subject="secret key", verdict=OK, finding=finding)


def _credentials(settings: Settings) -> DoctorCheck:
    from headway import config
    from headway.cli.doctor_checks import OK, SUPPLIER, WARN, DoctorCheck

    needed = ("boeing_client_id", "boeing_client_secret", "boeing_username", "boeing_password")
    missing = [config.setting_name(name) for name in needed if not _text(getattr(settings, name))]
    if not missing:
        return DoctorCheck(subject=SUPPLIER, verdict=OK, finding="credentials are configured")
    finding = f"no part is read without {', '.join(missing)}"
    return DoctorCheck(subject=SUPPLIER, verdict=WARN, finding=finding)


def _port(settings: Settings, folder: Path) -> DoctorCheck:
    from headway.cli.doctor_checks import OK, WARN, DoctorCheck
    from headway.cli.session import find_joinable

    place = f"{settings.web_host}:{settings.web_port}"
    if settings.web_port == 0:
        return DoctorCheck(subject="page", verdict=OK, finding="takes any free port")
    try:
        with socket.create_server((settings.web_host, settings.web_port)):
            return DoctorCheck(subject="page", verdict=OK, finding=f"{place} is free")
    except OSError as error:
        if find_joinable(folder) is not None:
            finding = f"{place} is in use, and Headway is running"
            return DoctorCheck(subject="page", verdict=OK, finding=finding)
        advice = "set HEADWAY_WEB_PORT to another, or 0 for any"
        finding = f"{place}: {(error.strerror or str(error)).lower()}; {advice}"
        return DoctorCheck(subject="page", verdict=WARN, finding=finding)


def _text(value: object) -> str:
    from pydantic import SecretStr

    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
