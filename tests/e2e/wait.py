"""Waiting for a condition, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(
    look: Callable[[], Awaitable[T]], good: Callable[[T], bool], what: str, timeout_s: float = 20.0
) -> T:
    """Looks again and again until what it sees is good; TimeoutError shows the last sight."""
    end = time.monotonic() + timeout_s
    while True:
        seen = await look()
        if good(seen):
            return seen
        if time.monotonic() > end:
            raise TimeoutError(f"{what} not within {timeout_s} s; last seen: {seen}")
        await asyncio.sleep(0.02)
