"""A browser's part towards the console of a stack: its cookie, and what its changes show."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.e2e.deployment import Deployment


@dataclass
class Browser:
    """Somebody who has signed in."""

    http: httpx2.AsyncClient
    session: dict[str, Any]

    async def get(self, path: str, **query: Any) -> Any:
        """The JSON of a path under `/console/api`."""
        answer = await self.http.get(f"/console/api/{path}", params=query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    async def data(self, path: str, **query: Any) -> Any:
        """The data of a card."""
        card = await self.get(path, **query)
        assert card["error"] is None, (path, card)
        return card["data"]

    async def post(self, path: str, **what: Any) -> httpx2.Response:
        """A change."""
        headers = {"x-weir-csrf": self.session["csrf"]}
        return await self.http.post(f"/console/api/{path}", headers=headers, **what)


@asynccontextmanager
async def signed_in(base_url: str, credential: str, **options: Any) -> AsyncIterator[Browser]:
    """Signs in with the admin secret, or with a key."""
    async with httpx2.AsyncClient(base_url=base_url, timeout=30, **options) as http:
        answer = await http.post("/console/api/login", json={"credential": credential})
        assert answer.status_code == 200, answer.text
        yield Browser(http, answer.json())


def admin_secret(stack: Deployment) -> str:
    """Of a stack."""
    return (stack.state / "admin_secret").read_text().strip()


def door(stack: Deployment) -> str:
    """The URL of its HTTP door."""
    return f"http://{stack.stack.welcome.http}"
