"""What all processes on one database must agree on, and who does not."""

import hashlib
from collections.abc import Mapping, Sequence

from headway.app.providers import has_keys, shared_vault
from headway.config import Settings
from headway.store.monitoring.processes import Process

# Two processes that differ in one of these would judge, place or limit the same rows differently,
# or could not read what the other has encrypted.
SHARED = (
    "policy", "rate_limit", "rate_gap_s", "batch_size", "budget_share", "boeing_client_id",
    "boeing_url", "shopify_client_id", "etsy_keystring", "etsy_day_limit", "jobs_max",
    "price_basis", "markup", "rounding", "currency", "locations",
)  # fmt: skip
DIGEST_CHARS = 12


def agreement(settings: Settings) -> Mapping[str, str]:
    """Return a digest of each setting that must be the same everywhere; none can be read back."""
    digests = {name: _digest(name, settings) for name in SHARED}
    if has_keys(settings):
        digests["secret_key"] = " ".join(shared_vault(settings).digests)
    return digests


def disagreements(mine: Mapping[str, str], others: Sequence[Process]) -> Mapping[str, list[str]]:
    """Return the names of the settings in which other processes differ, by process.

    While keys are rotated some know one more than others; that they share one is enough.
    """
    found = {
        each.name: [
            name
            for name, own in mine.items()
            if set(own.split()).isdisjoint(each.settings.get(name, own).split())
        ]
        for each in others
    }
    return {name: differing for name, differing in found.items() if differing}


def _digest(name: str, settings: Settings) -> str:
    plain = f"{name}={getattr(settings, name)!r}"
    return hashlib.sha256(plain.encode()).hexdigest()[:DIGEST_CHARS]
