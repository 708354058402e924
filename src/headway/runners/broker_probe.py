"""Checks of a broker for `headway doctor`: its version, and its policy when memory is full."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis import Redis
from redis.exceptions import NoPermissionError, RedisError

from headway.runners.celery_app import (
    CONNECT_TIMEOUT_S,
    SOCKET_TIMEOUT_S,
    VISIBILITY_TIMEOUT_S,
    explained,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """A broker by its own word; `is_silent` where its user may not ask it."""

    name: str = "a broker"
    version: str = "of unknown version"
    policy: str = ""
    memory_max: int = 0
    memory_used: int = 0
    is_replica: bool = False
    is_cluster: bool = False
    is_silent: bool = False
    visibility_timeout_s: int = VISIBILITY_TIMEOUT_S

    @property
    def version_number(self) -> tuple[int, ...]:
        """The version as numbers, to be compared."""
        return tuple(int(number) for number in re.findall(r"\d+", self.version)[:2])


def probe_broker(url: str) -> BrokerFacts:
    """Return facts about the broker; raises BrokerError if it does not answer."""
    try:
        client = Redis.from_url(
            url, socket_timeout=SOCKET_TIMEOUT_S, socket_connect_timeout=CONNECT_TIMEOUT_S
        )
        with contextlib.closing(client):
            client.ping()
            return _facts(client.info())
    except NoPermissionError:
        return BrokerFacts(is_silent=True)
    except (RedisError, OSError, ValueError) as error:
        raise explained(error) from None  # the cause may hold the address with its password


def _facts(info: Mapping[str, Any]) -> BrokerFacts:
    is_valkey = info.get("server_name") == "valkey"
    return BrokerFacts(
        name="Valkey" if is_valkey else "Redis",
        version=str(info["valkey_version" if is_valkey else "redis_version"]),
        policy=str(info.get("maxmemory_policy", "")),
        memory_max=int(info.get("maxmemory", 0)),
        memory_used=int(info.get("used_memory", 0)),
        is_replica=info.get("role") != "master",
        is_cluster=bool(info.get("cluster_enabled", 0)),
    )
