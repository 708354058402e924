"""`/connect/{platform}`: a person lets Headway into a shop, at the platform's own page.

An operator sends the seller a link with a code that names the seller and works once. The browser
that opens it gets a cookie; the state sent to the platform is the cookie's digest, so only that
browser can come back with it. Nothing is written before the platform has confirmed the shop.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment

from headway.app import App
from headway.app.accounts import connect_account
from headway.app.permit_call import call_with_permit
from headway.app.providers import shared_vault
from headway.clock import fresh_secret
from headway.core.accounts.jobs import PlatformName
from headway.core.accounts.outcome_links import outcome_url
from headway.errors import (
    ConfigError,
    HeadwayError,
    ProviderError,
    RequestError,
    StoreError,
    TooManyError,
)
from headway.operations.shop_links import redirect_uri
from headway.providers.oauth import AuthorizedShop, OAuthClient, challenge_of
from headway.providers.registry import find, platform_role
from headway.providers.tokens import TokenGrant, store_tokens
from headway.store.accounts.connections import ConnectedShop, ConnectedShops
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows

STATE_LIFE = timedelta(minutes=10)
T = TypeVar("T")
# Makes a page of a status, a title and a text.
Show = Callable[[int, str, str], Response]
Endpoint = Callable[[Request], Response]
NEW_LINK = "Ask for a new link: headway connect."


class _RefusedError(Exception):
    """The reason why the connection was refused, for the person in the browser."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(title)
        self.status, self.title, self.text = status, title, text


def router(app: App, pages: Environment) -> APIRouter:
    """Return the routes of one application; none while HEADWAY_PUBLIC_URL is not set."""
    routes = APIRouter(include_in_schema=False)
    if not app.settings.public_url:
        return routes
    for platform in app.consents:
        flow = _Flow(app, platform)
        path = f"/connect/{platform}"
        routes.add_api_route(path, _endpoint(pages, flow.start), methods=["GET"])
        routes.add_api_route(f"{path}/callback", _endpoint(pages, flow.finish), methods=["GET"])
    return routes


class _Flow:
    """The two visits of one person: on the way to the platform, and on the way back."""

    def __init__(self, app: App, platform: PlatformName) -> None:
        self._app = app
        self._platform = platform
        self._flows = OAuthFlows(app.pool)
        self._cookie = f"headway_connect_{platform}"

    def start(self, request: Request, _: Show) -> Response:
        """Redeem the link's code, and redirect the browser to the platform."""
        app, now, query = self._app, self._app.clock.now(), request.query_params
        back = redirect_uri(app.settings.public_url, self._platform)
        secret = fresh_secret()
        flow = self._flows.begin(
            self._platform,
            link_code=query.get("ticket", ""),
            state=_state(secret),
            expires_at=now + STATE_LIFE,
            now=now,
        )
        if flow is None or query.get("seller", flow.user_id) != flow.user_id:
            text = f"The link is incomplete, was used before, or has expired. {NEW_LINK}"
            raise _RefusedError(403, "This link does not work", text)
        verifier = shared_vault(app.settings).decrypt(flow.verifier)
        with closing(app.consents[self._platform]()) as consent:
            url = consent.url(
                redirect_uri=back,
                state=_state(secret),
                challenge=challenge_of(verifier),
                shop=flow.shop,
            )
        reply = RedirectResponse(url, status_code=302, headers={"Cache-Control": "no-store"})
        reply.set_cookie(
            self._cookie,
            secret,
            max_age=int(STATE_LIFE.total_seconds()),
            path="/connect",
            secure=back.startswith("https:"),
            httponly=True,
            samesite="lax",
        )
        return reply

    def finish(self, request: Request, show: Show) -> Response:
        """Exchange the code for tokens and connect the shop."""
        flow, state = self._known(request)
        try:
            reply = self._connect(request, show, flow, state)
        except (_RefusedError, ProviderError, RequestError) as error:
            is_over = self._flows.find(self._platform, state, now=self._app.clock.now()) is None
            if not flow.return_url or not is_over:
                raise
            reply = self._return(flow, {"status": "refused", "reason": str(error)})
        reply.delete_cookie(self._cookie, path="/connect")
        return reply

    def _connect(self, request: Request, show: Show, flow: OAuthFlow, state: str) -> Response:
        """Exchange the code for tokens, connect the shop, and say so."""
        code = request.query_params.get("code", "")
        if "error" in request.query_params or not code:
            self._flows.end(self._platform, state, now=self._app.clock.now())
            text = f"Nothing was connected. {NEW_LINK}"
            raise _RefusedError(403, "Access was not given", text)
        with closing(self._app.consents[self._platform]()) as consent:
            grant = self._exchange(consent, flow, state, code)
            authorized = self._permitted(
                consent, flow.shop, lambda: consent.find_shop(grant, shop=flow.shop)
            )
            if not authorized.title:
                title = self._permitted(
                    consent, flow.shop, lambda: consent.find_title(grant, authorized)
                )
                authorized = replace(authorized, title=title)
            account = self._keep(consent, flow, grant, authorized)
        if flow.return_url:
            outcome = {"status": "connected", "account": account.id, "shop": account.shop}
            return self._return(flow, outcome)
        return show(200, f"connected: {authorized.title or authorized.shop}", _welcome(flow))

    def _return(self, flow: OAuthFlow, outcome: Mapping[str, str]) -> Response:
        """Send the person back to the application that made the link, with a signed outcome."""
        named = {"seller": flow.user_id, "platform": flow.platform, **outcome}
        settings = self._app.settings
        url = outcome_url(
            flow.return_url,
            named,
            secret=settings.return_secret.get_secret_value(),
            state=flow.return_state,
            at=self._app.clock.now(),
        )
        return RedirectResponse(url, status_code=303, headers={"Cache-Control": "no-store"})

    def _known(self, request: Request) -> tuple[OAuthFlow, str]:
        """Return the visit that this browser began, still under way."""
        state = request.query_params.get("state", "")
        secret = request.cookies.get(self._cookie, "")
        is_its = hmac.compare_digest(_state(secret).encode(), state.encode("utf-8", "replace"))
        if not secret or not is_its:
            text = f"The link was opened in another browser, or cookies are blocked. {NEW_LINK}"
            raise _RefusedError(403, "This browser did not ask to connect a shop", text)
        flow = self._flows.find(self._platform, state, now=self._app.clock.now())
        if flow is None:
            raise _over()
        self._check_callback(dict(request.query_params), flow)
        return flow, state

    def _check_callback(self, params: Mapping[str, str], flow: OAuthFlow) -> None:
        """Refuse a callback that the platform did not sign for the requested shop."""
        role = platform_role(self._platform)
        if role.consent is None or role.consent.callback_shop is None:
            return
        shop = role.consent.callback_shop(self._app.settings, params)
        if shop is None or role.shop_name(shop) != flow.shop:
            title = find(self._platform).title
            text = f"{title} did not send you here, or sent you for another shop. {NEW_LINK}"
            raise _RefusedError(403, f"This is not {title}'s answer", text)

    def _exchange(self, consent: OAuthClient, flow: OAuthFlow, state: str, code: str) -> TokenGrant:
        """Exchange the code for tokens; the flow is over from here on, even if it fails."""
        back = redirect_uri(self._app.settings.public_url, self._platform)
        verifier = shared_vault(self._app.settings).decrypt(flow.verifier)

        def call() -> TokenGrant:
            if self._flows.end(self._platform, state, now=self._app.clock.now()) is None:
                raise _over()
            return consent.exchange(code, redirect_uri=back, verifier=verifier, shop=flow.shop)

        advice = "Load this page again in a minute."
        return self._permitted(consent, flow.shop, call, advice)

    def _permitted(
        self, consent: OAuthClient, shop: str, call: Callable[[], T], advice: str = NEW_LINK
    ) -> T:
        """Make one call within the limits; waits a few seconds for a permit at most."""
        try:
            return call_with_permit(
                self._app, consent.resources(shop), call, purpose="connect", unsent=_RefusedError
            )
        except TooManyError:
            text = f"Its limit is used up for now. {advice}"
            title = f"{self._platform.title()} cannot be asked at the moment"
            raise _RefusedError(503, title, text) from None

    def _keep(
        self, consent: OAuthClient, flow: OAuthFlow, grant: TokenGrant, authorized: AuthorizedShop
    ) -> ConnectedShop:
        """Connect the shop and store its tokens; without tokens it is not connected."""
        app, now = self._app, self._app.clock.now()
        connect_account(
            app.pool,
            flow.user_id,
            authorized.shop,
            platform=self._platform,
            owner_id=authorized.owner_id,
            title=authorized.title,
            rehearses=app.settings.rehearsal,
            after_erasure=True,  # the merchant has just agreed
            now=now,
        )
        try:
            store_tokens(
                Credentials(app.pool),
                shared_vault(app.settings),
                consent.limit_key(authorized),
                clock=app.clock,
                access=grant.access,
                expires_at=grant.access_until,
                refresh=grant.refresh,
                refresh_expires_at=grant.refresh_until,
            )
        except HeadwayError:
            reason = "its tokens could not be stored; connect it again"
            ConnectedShops(app.pool).disconnect(
                flow.user_id, reason, platform=self._platform, shop=authorized.shop, now=now
            )
            raise
        # A job that ran in between found no token, and was cancelled.
        return connect_account(
            app.pool, flow.user_id, authorized.shop, platform=self._platform, now=now
        )


def _state(secret: str) -> str:
    """Return the OAuth state: a digest of the cookie."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _over() -> _RefusedError:
    text = f"It took longer than ten minutes, or is already finished. {NEW_LINK}"
    return _RefusedError(410, "This link has expired", text)


def _welcome(flow: OAuthFlow) -> str:
    return f"From now on Headway pulls its orders for {flow.user_id}. You can close this page."


def _endpoint(pages: Environment, handle: Callable[[Request, Show], Response]) -> Endpoint:
    """Return an endpoint that shows every error as a page with the right status."""

    def show(status: int, title: str, text: str) -> Response:
        html = pages.get_template("connect.html").render(title=title, text=text)
        return HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})

    def endpoint(request: Request) -> Response:
        try:
            return handle(request, show)
        except _RefusedError as refusal:
            return show(refusal.status, refusal.title, refusal.text)
        except RequestError as error:
            return show(error.status_code, "The shop was not connected", str(error))
        except ProviderError as error:
            return show(
                502,
                f"{error.provider.title()} did not complete the connection",
                f"{error}. {NEW_LINK}",
            )
        except ConfigError as error:
            return show(503, "This server is not set up to connect shops", str(error))
        except StoreError:
            return show(503, "The database is down", "Load this page again in a minute.")

    return endpoint
