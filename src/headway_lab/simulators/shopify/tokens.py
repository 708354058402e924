"""Access to a simulated shop: a custom app's static token, a rotating pair, or a day's token.

A refresh token works once: if the reply is lost, the pair is lost. An app of the shop's own
organization gets tokens for its id and secret, which live a day and cannot be refreshed.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from headway.clock import Rng
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.shopify.apps import AppSecret, OwnApp
from headway_lab.simulators.shopify.shop import ShopSetup

REFRESH_LIFE_S = 90 * 86_400
CODE_LIFE_S = 600
OK = 200
CUSTOM_APP = "custom"
NOT_PERMITTED = {
    "error": "shop_not_permitted",
    "error_description": "Client credentials cannot be performed on this shop.",
}
ERROR_PAGE = b"<!DOCTYPE html><html><title>Oauth error %b</title><body>Oauth error</body></html>"


class ShopTokens:
    """The tokens of one shop."""

    def __init__(self, setup: ShopSetup, app: AppSecret, life_s: float, generator: Rng) -> None:
        self._app = app
        self._life_s = life_s
        self._generator = generator
        self._static = setup.access_token
        self._scope = ",".join(setup.scopes)
        self._own_app = setup.own_app
        self._apps: dict[str, str] = {}
        self._access: dict[str, float] = {}
        self._codes: dict[str, float] = {}
        self._refresh = {setup.refresh_token: float(REFRESH_LIFE_S)} if setup.refresh_token else {}

    def app_of(self, token: str, at_s: float) -> str | None:
        """Return the app that this token stands for, if it is alive."""
        if token and token == self._static:
            return CUSTOM_APP
        is_alive = self._access.get(token, at_s) > at_s
        return self._apps.get(token, self._app.client_id) if is_alive else None

    def issue(self, at_s: float, *, expires: bool = True) -> str:
        """Make an access token as an installation would."""
        token = f"shpat_{self._generator.getrandbits(128):032x}"
        self._access[token] = at_s + self._life_s if expires else math.inf
        return token

    def consent(self, at_s: float) -> str:
        """Record the merchant's consent; return the code of the redirect."""
        code = f"{self._generator.getrandbits(128):032x}"
        self._codes[code] = at_s + CODE_LIFE_S
        return code

    def revoke(self) -> None:
        """Invalidate all access tokens; refresh tokens stay valid."""
        self._static = ""
        self._access.clear()

    def answer(self, headers: Mapping[str, str], body: bytes, at_s: float) -> SimReply:
        """Answer a request for tokens; an error is a page unless JSON is asked for."""
        form, own = _form(headers.get("content-type", ""), body), self._own_app
        is_own = own is not None and form.get("client_id") == own.client_id
        reply = self._answer_own(form, own, at_s) if own and is_own else self._answer(form, at_s)
        if reply.status == OK or "application/json" in headers.get("accept", ""):
            return reply
        page = ERROR_PAGE % json.loads(reply.body)["error"].encode()
        return replace(reply, headers={"Content-Type": "text/html"}, body=page)

    def _answer(self, form: Mapping[str, Any], at_s: float) -> SimReply:
        """Redeem a code from the consent page, or issue a new pair or a day's token."""
        if form.get("client_id") != self._app.client_id:
            return json_reply({"error": "application_cannot_be_found"}, status=400)
        if form.get("client_secret") != self._app.client_secret:
            return json_reply({"error": "invalid_request"}, status=400)
        if "code" in form:
            return self._exchange(form, at_s)
        if form.get("grant_type") != "refresh_token":
            is_own = form.get("grant_type") == "client_credentials"
            error = NOT_PERMITTED if is_own else {"error": "unsupported_grant_type"}
            return json_reply(error, status=400)
        if self._refresh.pop(str(form.get("refresh_token")), at_s) <= at_s:
            return json_reply({"error": "invalid_grant"}, status=400)
        return self._pair(at_s)

    def _answer_own(self, form: Mapping[str, Any], app: OwnApp, at_s: float) -> SimReply:
        """Issue a token of the shop's own app; one after the other stays valid for its day."""
        if form.get("client_secret") != app.client_secret:
            return json_reply({"error": "invalid_request"}, status=400)
        if form.get("grant_type") != "client_credentials":
            return json_reply({"error": "unsupported_grant_type"}, status=400)
        if not app.is_in_organization:
            return json_reply(NOT_PERMITTED, status=400)
        if not app.is_installed:
            return json_reply({"error": "app_not_installed"}, status=400)
        token = self.issue(at_s)
        self._access[token], self._apps[token] = at_s + app.life_s, app.client_id
        reply = {"access_token": token, "scope": self._scope, "expires_in": int(app.life_s)}
        return json_reply(reply)

    def _exchange(self, form: Mapping[str, Any], at_s: float) -> SimReply:
        """Redeem a code, which works once; without `expiring=1` the token never expires."""
        if self._codes.pop(str(form["code"]), at_s) <= at_s:
            return json_reply({"error": "invalid_request"}, status=400)
        if str(form.get("expiring")) == "1":
            return self._pair(at_s)
        token = self.issue(at_s, expires=False)
        return json_reply({"access_token": token, "scope": self._scope})

    def _pair(self, at_s: float) -> SimReply:
        again = f"shprt_{self._generator.getrandbits(128):032x}"
        self._refresh[again] = at_s + REFRESH_LIFE_S
        return json_reply(
            {
                "access_token": self.issue(at_s),
                "expires_in": int(self._life_s),
                "refresh_token": again,
                "refresh_token_expires_in": REFRESH_LIFE_S,
                "scope": self._scope,
            }
        )


def _form(content_type: str, body: bytes) -> Mapping[str, Any]:
    if "json" not in content_type:
        return {key: values[0] for key, values in parse_qs(body.decode("latin-1")).items()}
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
