"""The settings that all processes on one database must agree on, and which processes do not."""

import hashlib
from collections.abc import Mapping, Sequence

from headway.app.providers import has_keys, shared_vault
from headway.config import Settings, shared_fields
from headway.store.monitoring.processes import Process

DIGEST_CHARS = 12


def agreement(settings: Settings) -> Mapping[str, str]:
    """Return a digest of each shared setting; the value cannot be recovered from it."""
    digests = {field: _digest(field, settings) for field in shared_fields()}
    if has_keys(settings):
        digests["secret_key"] = " ".join(shared_vault(settings).digests)
    return digests


def disagreements(mine: Mapping[str, str], others: Sequence[Process]) -> Mapping[str, list[str]]:
    """Return the names of the settings in which other processes differ, by process.

    While keys are rotated, processes may know different sets of keys; one common key is enough.
    """
    differing = {
        process.name: [
            name
            for name, own in mine.items()
            if set(own.split()).isdisjoint(process.settings.get(name, own).split())
        ]
        for process in others
    }
    return {process: names for process, names in differing.items() if names}


def _digest(field: str, settings: Settings) -> str:
    plain = f"{field}={getattr(settings, field)!r}"
    return hashlib.sha256(plain.encode()).hexdigest()[:DIGEST_CHARS]
