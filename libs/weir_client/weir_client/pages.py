"""Lists that come page by page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


async def all_pages(
    fetch: Callable[[str], Awaitable[tuple[Iterable[Item], str]]],
) -> AsyncIterator[Item]:
    """Every item; `fetch` has the token of a page and gives its items and the next token."""
    token = ""
    while True:
        items, token = await fetch(token)
        for item in items:
            yield item
        if not token:
            return
