"""A browser's part towards the console of a gateway of the harness."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.gateway.harness import Gateway

ADMIN_SECRET = "an-admin-secret-of-more-than-32-characters"


@dataclass
class Browser:
    """One with cookies of its own."""

    http: httpx2.AsyncClient
    session: dict[str, Any] = field(default_factory=dict)

    async def sign_in(self, credential: str, **headers: str) -> httpx2.Response:
        body = {"credential": credential}
        answer = await self.http.post("/console/api/login", json=body, headers=headers)
        if answer.status_code == 200:
            self.session = answer.json()
        return answer

    async def get(self, path: str, **what: Any) -> httpx2.Response:
        return await self.http.get(f"/console/api/{path}", **what)

    async def post(self, path: str, **headers: str) -> httpx2.Response:
        shown = {"x-weir-csrf": self.session.get("csrf", "")} | headers
        return await self.http.post(f"/console/api/{path}", headers=shown)

    async def alive(self) -> bool:
        return (await self.get("session")).status_code == 200


@asynccontextmanager
async def browser(gateway: Gateway, credential: str = "", **options: Any) -> AsyncIterator[Browser]:
    """A new one, signed in if a credential is given."""
    base_url = str(gateway.http.base_url)
    async with httpx2.AsyncClient(base_url=base_url, timeout=20, **options) as http:
        one = Browser(http)
        if credential:
            answer = await one.sign_in(credential)
            assert answer.status_code == 200, answer.text
        yield one


def told(answer: httpx2.Response) -> tuple[int, str]:
    """Status and reason of a refusal."""
    return answer.status_code, answer.json()["error"]["reason"]
