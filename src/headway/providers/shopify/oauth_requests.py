"""How a merchant lets the app in: the consent page, the way back, and the code for tokens."""

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from urllib.parse import urlencode

import httpx

from headway.clock import Clock
from headway.errors import InvalidError, PermanentError
from headway.providers.http import build_client, check_status, exchange
from headway.providers.shopify.api import JSON_ONLY, TOKEN_PATH, ShopAccess, shop_address
from headway.providers.shopify.replies import PROVIDER
from headway.providers.tokens import (
    GRANT_ENDED,
    NEVER,
    TokenGrant,
    grant_error,
    read_grant,
)

CONSENT_PATH = "/admin/oauth/authorize"
REFUSED = frozenset({400, 401})
# Only such a host is a shop's: a link must not lead people elsewhere.
DOMAIN = re.compile(r"[a-z0-9][a-z0-9-]*\.myshopify\.com")


def consent_url(
    shop: str,
    *,
    client_id: str,
    scopes: Sequence[str],
    redirect_uri: str,
    state: str,
    url: str = "https://{shop}",
) -> str:
    """Return where to send the merchant of this shop; raises InvalidError."""
    if not DOMAIN.fullmatch(shop):
        raise InvalidError(f"{shop!r} is no shop; write it like example.myshopify.com")
    query_params = {
        "client_id": client_id,
        "scope": ",".join(scopes),
        "redirect_uri": redirect_uri,
        "state": state,
    }
    return f"{str(shop_address(url, shop)).rstrip('/')}{CONSENT_PATH}?{urlencode(query_params)}"


def check_callback(params: Mapping[str, str], secret: str) -> bool:
    """Return True if Shopify itself sent the browser back with these parameters, all but `hmac`."""
    signed = {name: value for name, value in params.items() if name != "hmac"}
    message = "&".join(
        f"{_escaped(name).replace('=', '%3D')}={_escaped(value)}"
        for name, value in sorted(signed.items())
    )
    digest = hmac.new(secret.encode(), message.encode(), sha256).hexdigest()
    signature = params.get("hmac", "")
    return bool(secret) and hmac.compare_digest(digest.encode(), signature.encode())


def _escaped(text: str) -> str:
    """Escape what would let one pair of a query pass for two, as Shopify does."""
    return text.replace("%", "%25").replace("&", "%26")


def exchange_code(
    shop: str,
    code: str,
    *,
    access: ShopAccess,
    clock: Clock,
    url: str = "https://{shop}",
    timeout_s: float = 30,
    transport: httpx.BaseTransport | None = None,
) -> TokenGrant:
    """Change a code for tokens that expire, in one call; raises ProviderError.

    An app that is exempt may get a token that never expires instead.
    """
    form = {
        "client_id": access.client_id,
        "client_secret": access.client_secret,
        "code": code,
        "expiring": "1",
    }
    base = str(shop_address(url, shop))
    with build_client(base, clock=clock, timeout_s=timeout_s, transport=transport) as client:
        request = client.build_request("POST", TOKEN_PATH, data=form, headers=JSON_ONLY)
        answer = exchange(client, request, clock=clock, timeout_s=timeout_s, provider=PROVIDER)
    if answer.status in REFUSED and not answer.is_page:
        # It answers `invalid_request` to a wrong secret as to a code that was used.
        app = "HEADWAY_SHOPIFY_CLIENT_ID or its secret; check both"
        is_code = grant_error(answer) in {"invalid_request", GRANT_ENDED}
        why = f"the code, or {app}" if is_code else app
        raise PermanentError(f"shopify refuses {why}", provider=PROVIDER, status=answer.status)
    check_status(answer, provider=PROVIDER, shows_body=False)
    grant = read_grant(answer.body, clock.now(), provider=PROVIDER)
    return grant if grant.refresh is not None else replace(grant, access_until=NEVER)
