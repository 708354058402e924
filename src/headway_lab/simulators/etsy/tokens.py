"""Access to a simulated Etsy: codes with PKCE, and pairs of tokens that rotate."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.clock import Rng
from headway_lab.simulators.reply import SimReply, json_reply

LIFE_S, REFRESH_LIFE_S, CODE_LIFE_S = 3600, 90 * 86_400, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class EtsyApp:
    """What Etsy knows an app by."""

    keystring: str = "sim-keystring"
    shared_secret: str = field(default="sim-shared-secret", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An access and a refresh token, and their owner."""

    user_id: int
    access: str = field(repr=False)
    refresh: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    user_id: int
    redirect: str
    challenge: str
    until_s: float


class EtsyTokens:
    """All tokens of an app; an old refresh token expires at once, or when the new pair is used."""

    def __init__(self, app: EtsyApp, generator: Rng, *, is_lenient: bool) -> None:
        self._app = app
        self._generator = generator
        self._is_lenient = is_lenient
        self._access: dict[str, tuple[int, float]] = {}
        self._refresh: dict[str, tuple[int, float]] = {}
        self._before: dict[str, str] = {}
        self._codes: dict[str, _Code] = {}

    def issue(self, user_id: int, at_s: float) -> Pair:
        """Make a pair as a consent does."""
        access, refresh = self._draw(user_id), self._draw(user_id)
        self._access[access] = (user_id, at_s + LIFE_S)
        self._refresh[refresh] = (user_id, at_s + REFRESH_LIFE_S)
        return Pair(user_id=user_id, access=access, refresh=refresh)

    def consent(self, user_id: int, at_s: float, *, redirect: str, challenge: str) -> str:
        """Record a person's consent; return the code that the app gets."""
        code = self._draw(user_id)
        until_s = at_s + CODE_LIFE_S
        self._codes[code] = _Code(
            user_id=user_id, redirect=redirect, challenge=challenge, until_s=until_s
        )
        return code

    def user_of(self, bearer: str, at_s: float) -> int | None:
        """Return the owner of this token, if it is valid."""
        user_id, until_s = self._access.get(bearer, (0, 0.0))
        if until_s <= at_s:
            return None
        self._settle(bearer)
        return user_id

    def revoke(self, user_id: int) -> None:
        """Revoke all tokens of this person."""
        for tokens in (self._access, self._refresh):
            for token in [value for value, (user, _) in tokens.items() if user == user_id]:
                del tokens[token]

    def expire(self, user_id: int) -> None:
        """Expire the access tokens of this person; refresh tokens stay valid."""
        for token in [value for value, (user, _) in self._access.items() if user == user_id]:
            del self._access[token]

    def answer(self, form: Mapping[str, str], at_s: float) -> SimReply:
        """Answer a request for a pair."""
        if form.get("client_id") != self._app.keystring:
            return _refuse("invalid_client", "The client is unknown", status=401)
        grant = form.get("grant_type")
        if grant == "refresh_token":
            return self._rotate(form.get("refresh_token", ""), at_s)
        if grant == "authorization_code":
            return self._redeem(form, at_s)
        return _refuse("unsupported_grant_type", "grant_type is not supported")

    def _rotate(self, refresh: str, at_s: float) -> SimReply:
        user_id, until_s = self._refresh.get(refresh, (0, 0.0))
        if until_s <= at_s:
            return _refuse("invalid_grant", "The refresh token is invalid or expired")
        self._settle(refresh)
        pair = self.issue(user_id, at_s)
        if self._is_lenient:
            self._before[pair.access] = self._before[pair.refresh] = refresh
        else:
            del self._refresh[refresh]
        return _grant(pair)

    def _redeem(self, form: Mapping[str, str], at_s: float) -> SimReply:
        code = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_good = (
            code is not None
            and code.until_s > at_s
            and code.redirect == form.get("redirect_uri")
            and code.challenge == challenge
        )
        if not is_good or code is None:
            return _refuse("invalid_grant", "The code is invalid, expired or not yours")
        return _grant(self.issue(code.user_id, at_s))

    def _settle(self, token: str) -> None:
        """Expire the previous pair, now that this one is used."""
        self._refresh.pop(self._before.pop(token, ""), None)

    def _draw(self, user_id: int) -> str:
        return f"{user_id}.{self._generator.getrandbits(160):040x}"


def _grant(pair: Pair) -> SimReply:
    tokens = {"access_token": pair.access, "refresh_token": pair.refresh}
    return json_reply({**tokens, "token_type": "Bearer", "expires_in": LIFE_S})


def _refuse(error: str, description: str, *, status: int = 400) -> SimReply:
    return json_reply({"error": error, "error_description": description}, status=status)
