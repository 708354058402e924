"""Idempotency-Key: the same POST under the same key is done once, and answered as it was."""

import hashlib
import math
from collections.abc import Callable
from datetime import datetime

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from headway.clock import fresh_id
from headway.core.access import Principal
from headway.errors import InvalidError
from headway.store.access.idempotency import (
    Idempotency,
    IdempotentRequest,
    KeyReused,
    RequestBegun,
    RequestInProgress,
    StoredResponse,
)
from headway.web.problems import Handle, problem

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY_CHARS_MAX = 255
REFUSED = 400


async def once(
    store: Idempotency,
    request: Request,
    body: bytes,
    *,
    who: Principal,
    now: Callable[[], datetime],
    handle: Handle,
) -> Response:
    """Handle a request, or answer as the same one was answered before.

    Only what was done is kept: a refusal did nothing, so the same may be tried again.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return await handle(request)
    idempotent_request = _idempotent_request(key, request, body, who)
    match await run_in_threadpool(store.begin, idempotent_request, now=now()):
        case StoredResponse() as known:
            return _replayed(known)
        case KeyReused():
            raise InvalidError(f"{HEADER}: another request was sent under this key; take a new one")
        case RequestInProgress(until=until):
            wait_s = max(1, math.ceil((until - now()).total_seconds()))
            detail = "the same request is under way; ask again for its answer"
            return problem(409, detail, headers={"Retry-After": str(wait_s)})
        case RequestBegun():
            return await _done(store, idempotent_request, request, handle)


def keep_instead(request: Request, body: bytes) -> None:
    """Let a replay answer this instead: a reply that shows a secret is not kept as it is."""
    request.state.kept_body = body


async def _done(
    store: Idempotency, idempotent_request: IdempotentRequest, request: Request, handle: Handle
) -> Response:
    try:
        reply = await handle(request)
    except Exception:
        await run_in_threadpool(store.release, idempotent_request)
        raise
    body = getattr(request.state, "kept_body", getattr(reply, "body", None))
    if reply.status_code >= REFUSED or not isinstance(body, bytes):
        await run_in_threadpool(store.release, idempotent_request)
        return reply
    answer = StoredResponse(
        status=reply.status_code, content_type=reply.headers.get("content-type", ""), body=body
    )
    await run_in_threadpool(store.finish, idempotent_request, answer)
    return reply


def _idempotent_request(
    key: str, request: Request, body: bytes, who: Principal
) -> IdempotentRequest:
    if not 0 < len(key) <= KEY_CHARS_MAX or not key.isascii() or not key.isprintable():
        raise InvalidError(f"{HEADER}: write up to {KEY_CHARS_MAX} printable ASCII characters")
    # The same request for another shop of the owner is another one.
    shop = f" for {who.seller}" if who.home else ""
    target = f"{request.method} {request.url.path}?{request.url.query}{shop}"
    fingerprint = hashlib.sha256(target.encode() + b"\n" + body).digest()
    return IdempotentRequest(principal=who.id, key=key, fingerprint=fingerprint, owner=fresh_id())


def _replayed(known: StoredResponse) -> Response:
    headers = {REPLAYED: "true"}
    if known.content_type:
        headers["content-type"] = known.content_type
    return Response(known.body, status_code=known.status, headers=headers)
