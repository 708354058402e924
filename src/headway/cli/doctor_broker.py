"""The broker checks of `headway doctor`: whether it answers, and whether it keeps messages."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headway.cli.doctor_shops import FAIL, OK, WARN, ShopCheck
from headway.config import Settings
from headway.errors import BrokerError

if TYPE_CHECKING:
    from headway.runners.broker_probe import BrokerFacts

EXTRA = ("celery", "redis")
KEPT = "noeviction"
# The oldest version that redis-py and Celery still test with.
VERSION_MIN = (6, 2)
FULL_SHARE = 0.8


def examine_broker(settings: Settings) -> Iterator[ShopCheck]:
    """Look at the broker, where one is set."""
    if settings.broker_url is None:
        yield _line(OK, "none is set; headway run needs none, headway worker HEADWAY_BROKER_URL")
        return
    if any(find_spec(package) is None for package in EXTRA):
        advice = "install them: pip install 'headway[scale]'"
        yield _line(FAIL, f"HEADWAY_BROKER_URL is set, but Celery or redis-py is missing; {advice}")
        return
    from headway.runners.broker_probe import probe_broker  # noqa: PLC0415 - an extra

    if settings.database_url is None:
        advice = "set DATABASE_URL to a PostgreSQL that all workers reach"
        yield _line(WARN, f"workers cannot share the embedded database; {advice}")
    try:
        facts = probe_broker(settings.broker_url.get_secret_value())
    except BrokerError as error:
        yield _line(FAIL, f"{error}; start Redis or Valkey there, or correct HEADWAY_BROKER_URL")
        return
    yield from judge(facts)


def judge(facts: "BrokerFacts") -> Iterator[ShopCheck]:
    """Yield the checks of a broker; persistence is not needed."""
    what = f"{facts.name} {facts.version}"
    if facts.is_silent:
        finding = f"{what} answers, but its user may not run INFO; see there that"
        yield _line(WARN, f"{finding} maxmemory-policy is {KEPT}")
        return
    troubles = list(_troubles(facts))
    if not troubles:
        finding = f"{what}, {KEPT}; what nobody acknowledged comes again after"
        yield _line(OK, f"{finding} {facts.visibility_timeout_s} s")
    yield from (_line(verdict, f"{what}: {finding}") for verdict, finding in troubles)


def _troubles(facts: "BrokerFacts") -> Iterator[tuple[str, str]]:
    if facts.is_replica:
        yield FAIL, "a replica, which takes no writes; point HEADWAY_BROKER_URL at the primary"
    if facts.is_cluster:
        yield FAIL, "a cluster, which Celery cannot use; a single one is enough, and may be small"
    if facts.policy != KEPT:
        advice = f"run there: CONFIG SET maxmemory-policy {KEPT}, then CONFIG REWRITE"
        dropped = f"drops messages when its memory is full ({facts.policy})"
        yield WARN, f"{dropped}; what it dropped is done up to 15 s late; {advice}"
    if facts.memory_max and facts.memory_used > FULL_SHARE * facts.memory_max:
        share = f"{facts.memory_used / facts.memory_max:.0%} of its memory is used"
        yield WARN, f"{share}; give it more, or see who else keeps things there"
    if facts.version_number < VERSION_MIN:
        yield WARN, f"older than {VERSION_MIN[0]}.{VERSION_MIN[1]}; upgrade it"


def _line(verdict: str, finding: str) -> ShopCheck:
    return ShopCheck(subject="broker", verdict=verdict, finding=finding)
