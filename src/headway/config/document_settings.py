"""Settings of the design documents that Headway accepts under other names, or has no use for.

An environment that was written for the documents starts Headway as it stands; `replaced` says in
one line each what has taken the place of a setting.
"""

from collections.abc import Mapping

from dotenv import dotenv_values

from headway.errors import ConfigError

ENV_FILE = ".env"
# Other names of a setting.
ALIASES = {"SYNC_BOEING_BATCH_SIZE": "SYNC_BATCH_SIZE"}
OVERDUE = (
    "a part that is due is in the queue at once, however late; the alert overdue counts those"
    " that wait for an hour (HEADWAY_ALERTS)"
)
STEPS = "any number of steps may run at once: the limiter counts calls, not workers"
REPLACED = {
    "SYNC_CATCHUP_INTERVAL_MINUTES": "no catch-up run is needed: what is overdue is read next",
    "SYNC_CATCHUP_OVERDUE_THRESHOLD": OVERDUE,
    "SYNC_CATCHUP_OVERDUE_THRESHOLD_MINUTES": OVERDUE,
    "SYNC_STUCK_THRESHOLD_MINUTES": "the parts of a worker that dies are free again when its"
    " lease ends, within two minutes",
    "SYNC_DISPATCH_CONCURRENCY": f"{STEPS}; one of the workers ticks",
    "SYNC_BOEING_CONCURRENCY": f"{STEPS} (HEADWAY_WORKER_CONCURRENCY)",
    "SYNC_SHOPIFY_CONCURRENCY": f"{STEPS} (HEADWAY_WORKER_CONCURRENCY)",
}


def read_env_file() -> dict[str, str]:
    """Return the variables of the file `.env` in the current folder, if there is one."""
    values = dotenv_values(ENV_FILE, interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def own_names(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values under our names, without those that are replaced; raises ConfigError.

    A replaced setting must still be a number: otherwise a line was mistyped.
    """
    own = {name: value for name, value in values.items() if name not in ALIASES}
    for name, value in values.items():
        if name in REPLACED:
            own.pop(name)
            _require_number(name, value)
        elif name in ALIASES and value:
            if own.get(ALIASES[name], value) != value:
                raise ConfigError(
                    f"{name}={value} and {ALIASES[name]}={own[ALIASES[name]]} mean the same setting"
                )
            own[ALIASES[name]] = value
    return own


def replaced(values: Mapping[str, str]) -> list[str]:
    """Return one line for each setting of the documents that something else replaces."""
    return [f"{name}: {REPLACED[name]}" for name in REPLACED if values.get(name)]


def _require_number(name: str, value: str) -> None:
    if value and not value.strip().isdigit():
        raise ConfigError(f"setting {name}: {value!r} is not a whole number")
