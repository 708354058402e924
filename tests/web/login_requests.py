"""What those do who come to the door of a site: show a key, log in, and are let in or refused."""

from collections.abc import Callable
from datetime import timedelta

import httpx

from headway.core.access import AccessGrant, Role
from headway.web.authentication import COOKIE, csrf_of

OPS = AccessGrant(name="ops", role=Role.OPERATOR)
HOUR = timedelta(hours=1)
ME, KEYS, SESSIONS = "/api/me", "/api/keys", "/api/sessions"
Open = Callable[..., httpx.Client]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def log_in(site: httpx.Client, key: str) -> str:
    """Log the client in; return the token of its session."""
    answer = site.post("/login", data={"key": key})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return csrf_of(site.cookies[COOKIE])


def refused(answer: httpx.Response, status: int) -> str:
    """Return the detail of a refusal."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    return str(answer.json()["detail"])
