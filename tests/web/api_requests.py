"""A client for a site in this process, which sends one request at a time."""

import asyncio
from collections.abc import Mapping
from functools import partialmethod
from typing import Any

import httpx
from fastapi import FastAPI


class ApiClient:
    """An HTTP client with its own headers and its own address."""

    def __init__(
        self,
        site: FastAPI,
        *,
        headers: Mapping[str, str] | None = None,
        client: tuple[str, int] = ("127.0.0.1", 50_000),
    ) -> None:
        self._transport = httpx.ASGITransport(app=site, client=client)
        self._headers = headers

    def request(self, method: str, address: str, **more: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._transport, base_url="http://here.test", headers=self._headers
            ) as client:
                return await client.request(method, address, **more)

        return asyncio.run(send())

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    put = partialmethod(request, "PUT")
    delete = partialmethod(request, "DELETE")
