"""Log in to a site with a key, and read a refusal."""

from collections.abc import Callable
from datetime import timedelta

import httpx

from headway.core.access import AccessGrant, Role
from headway.web.authentication import COOKIE, csrf_of

OPS = AccessGrant(name="ops", role=Role.OPERATOR)
HOUR = timedelta(hours=1)
ME, KEYS, SESSIONS = "/api/me", "/api/keys", "/api/sessions"
OpenSite = Callable[..., httpx.Client]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def log_in(site: httpx.Client, key: str) -> str:
    """Log the client in; return the token of its session."""
    response = site.post("/login", data={"key": key})
    assert (response.status_code, response.headers["location"]) == (303, "/")
    return csrf_of(site.cookies[COOKIE])


def refused(response: httpx.Response, status: int) -> str:
    """Return the detail of an expected error response."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    return str(response.json()["detail"])
