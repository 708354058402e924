"""`/login`: a browser shows a key, or a link that works once, and gets a session; `/logout`.

`/switch` chooses another shop of the same owner for a session.

Wrong tries are counted for an address before they are looked at, in the store, so that several
processes count together. Everything works without JavaScript.
"""

import hmac
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment
from starlette.concurrency import run_in_threadpool

from headway.core.access import AccessGrant, Need, Principal
from headway.errors import RequestError, StoreError, TooManyError, UnauthenticatedError
from headway.web.authentication import CSRF_HEADER, AuthenticationGate, Visitor, address_of
from headway.web.body_limits import read_body
from headway.web.problems import Handle, problem

FORM_FIELDS_MAX = 8
FORM_BYTES_MAX = 4096
LATER = "Load this page again in a minute."
WRONG_KEY = "This API key is invalid, was revoked, or has expired."
DEAD_LINK = "This link was used before, or is too old. Make a new one: headway key link."
NOTHING = "Paste a key into the field."
FormAct = Callable[[Visitor, Mapping[str, str], Response], None]


def router(gate: AuthenticationGate, pages: Environment) -> APIRouter:
    """Return the login and logout routes."""
    login = _LoginPages(gate, pages)
    routes = APIRouter(include_in_schema=False)
    routes.add_api_route("/login", login.ask, methods=["GET"])
    routes.add_api_route("/login", login.show_key, methods=["POST"])
    routes.add_api_route("/login/{link}", login.open_link, methods=["GET"])
    routes.add_api_route("/logout", login.leave, methods=["POST"])
    routes.add_api_route("/switch", login.switch, methods=["POST"])
    return routes


class PageRoute(APIRoute):
    """A route of the page: a browser without a session is redirected to the login.

    While the database does not answer, the page is rendered for an unknown visitor.
    """

    def get_route_handler(self) -> Handle:
        """Wrap the handler."""
        handle = super().get_route_handler()
        is_page = self.response_class is HTMLResponse

        async def guarded(request: Request) -> Response:
            gate: AuthenticationGate = request.app.state.gate
            try:
                visitor = await run_in_threadpool(gate.admit, request)
                visitor.principal.require(Need.READ)
            except StoreError as error:
                if not is_page:
                    return problem(503, str(error), title="the database is down")
                visitor = None
            except UnauthenticatedError as error:
                if is_page:
                    return RedirectResponse(_login_path(request), status_code=303)
                return problem(401, str(error))
            except RequestError as error:
                return problem(error.status_code, str(error))
            request.state.visitor = visitor
            return await handle(request)

        return guarded


class _LoginPages:
    """The handlers of the login and logout routes."""

    def __init__(self, gate: AuthenticationGate, pages: Environment) -> None:
        self._gate = gate
        self._pages = pages

    def ask(self, request: Request) -> Response:
        """Show the login page, or redirect a browser that has a session."""
        onward = _onward(request.query_params.get("next", ""))
        try:
            visitor = self._gate.visitor(request)
        except StoreError:
            return self._page(503, LATER, onward=onward)
        if visitor is not None and visitor.csrf is not None:
            return RedirectResponse(onward, status_code=303)
        return self._page(200, "", onward=onward)

    async def show_key(self, request: Request) -> Response:
        """Log in with the key from the form."""
        body = await read_body(request, bytes_max=FORM_BYTES_MAX)
        if isinstance(body, Response):
            return body
        form = _form(body)
        key, onward = form.get("key", "").strip(), _onward(form.get("next", ""))
        if not key:
            return self._page(422, NOTHING, onward=onward)

        def find() -> Principal | None:
            return self._gate.access.find_key(key, now=self._gate.now())

        return await run_in_threadpool(self._let_in, request, find, WRONG_KEY, onward)

    def open_link(self, request: Request, link: str) -> Response:
        """Log in with a one-time link; a prefetch does not use it up."""
        if "prefetch" in request.headers.get("sec-purpose", ""):
            return self._page(503, LATER, onward="/")
        try:
            visitor = self._gate.visitor(request)
        except StoreError:
            return self._page(503, LATER, onward="/")

        def find() -> AccessGrant | None:
            return self._gate.access.take_link(link, now=self._gate.now())

        # The link was opened again in the browser that used it: no error.
        is_known = visitor is not None and visitor.csrf is not None
        return self._let_in(request, find, DEAD_LINK, "/", is_known=is_known)

    async def leave(self, request: Request) -> Response:
        """End the session if the request comes from our own page."""

        def end(_visitor: Visitor, _form: Mapping[str, str], reply: Response) -> None:
            self._gate.log_out(request, reply)

        return await self._from_own_page(request, end, onward="/login")

    async def switch(self, request: Request) -> Response:
        """Show another shop of the owner from now on, if the request comes from our own page."""

        def choose(visitor: Visitor, form: Mapping[str, str], _reply: Response) -> None:
            self._gate.switch_shop(request, visitor.principal, form.get("seller", ""))

        return await self._from_own_page(request, choose, onward="/")

    async def _from_own_page(self, request: Request, act: FormAct, *, onward: str) -> Response:
        """Do what a form of our own page asks for; without a session there is nothing to do."""
        body = await read_body(request, bytes_max=FORM_BYTES_MAX)
        if isinstance(body, Response):
            return body
        return await run_in_threadpool(self._act, request, _form(body), act, onward)

    def _act(
        self, request: Request, form: Mapping[str, str], act: FormAct, onward: str
    ) -> Response:
        reply = RedirectResponse(onward, status_code=303)
        token = request.headers.get(CSRF_HEADER) or form.get("csrf", "")
        try:
            visitor = self._gate.visitor(request)
            if visitor is not None and visitor.csrf is not None:
                self._gate.require_own_page(request)
                if not hmac.compare_digest(token.encode(), visitor.csrf.encode()):
                    return problem(403, "the form lacks this session's token")
                act(visitor, form, reply)
        except StoreError:
            return self._page(503, LATER, onward="/")
        except RequestError as error:
            return problem(error.status_code, str(error))
        return reply

    def _let_in(
        self,
        request: Request,
        find: Callable[[], Principal | AccessGrant | None],
        refusal: str,
        onward: str,
        *,
        is_known: bool = False,
    ) -> Response:
        """Log the browser in as the principal that `find` returns; None is a failed try."""
        gate, address = self._gate, address_of(request)
        try:
            gate.require_own_page(request)
            if not is_known:
                gate.access.count_try(address, now=gate.now())
            who = find()
            if who is None and is_known:
                return RedirectResponse(onward, status_code=303)
            if who is None:
                return self._page(401, refusal, onward=onward)
            gate.access.forgive(address, now=gate.now())
            reply = RedirectResponse(onward, status_code=303)
            gate.log_in(request, reply, who)
        except StoreError:
            return self._page(503, LATER, onward=onward)
        except TooManyError as error:
            headers = {"Retry-After": str(round(error.retry_after_s))}
            return self._page(429, f"{error}.", onward=onward, headers=headers)
        except RequestError as error:
            return self._page(error.status_code, f"{error}.", onward=onward)
        return reply

    def _page(
        self, status: int, message: str, *, onward: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        html = self._pages.get_template("login.html").render(
            message=message[:1].upper() + message[1:], onward=onward
        )
        return HTMLResponse(html, status_code=status, headers=headers)


def csrf_of_page(visitor: Visitor | None) -> str:
    """Return the token that a page hands to its buttons; empty where it has none."""
    return "" if visitor is None or visitor.csrf is None else visitor.csrf


def _login_path(request: Request) -> str:
    path = request.url.path
    query = f"?{request.url.query}" if request.url.query else ""
    return "/login" if path == "/" else f"/login?next={quote(path + query, safe='')}"


def _onward(path: str) -> str:
    """Return the path to open after the login; "/" unless it is a path of this site."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_ours and path.isprintable() and path.isascii() else "/"


def _form(body: bytes) -> dict[str, str]:
    """Return the fields of a form; none if it has more than any form of ours."""
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=FORM_FIELDS_MAX)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}
