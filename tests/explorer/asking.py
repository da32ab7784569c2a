"""Asks an application for pages, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
from starlette.types import ASGIApp

ADDRESS = "http://127.0.0.1:8000"


class Client:
    """A browser that keeps its cookies, follows no redirects, and sees a fault of the application as an answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._cookies = httpx.Cookies()

    def get(
        self, address: str, *, params: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return self.request("GET", address, params=params, headers=headers)

    def request(
        self,
        method: str,
        address: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, cookies=self._cookies) as client:
                return await client.request(method, address, params=params, headers=headers)

        response = asyncio.run(ask())
        self._cookies.update(response.cookies)
        return response
