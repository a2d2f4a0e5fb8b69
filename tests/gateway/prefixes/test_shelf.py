"""How often the database is asked for a prefix, and what holds while it is away."""

import asyncio
from typing import Any

import pytest

from weir_core.errors import Reason, WeirError
from weir_gateway.prefixes import shelf as bounds
from weir_gateway.prefixes.prefix import NEWEST, Prefix, PrefixContent
from weir_gateway.prefixes.shelf import PrefixShelf


class Store:
    """Counts reads; `fault` is raised in place of an answer."""

    def __init__(self) -> None:
        self.text = "one"
        self.reads = 0
        self.fault: WeirError | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def find(self, tenant_id: str, name: str, version: int) -> Prefix | None:
        self.reads += 1
        text = self.text
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        if not text:
            return None
        return Prefix(
            tenant_id=tenant_id,
            name=name,
            version=1,
            content=PrefixContent(text=text),
            models=(),
            api_key_id="k",
            created_ms=0,
        )


async def text_of(shelf: PrefixShelf, name: str = "p") -> str | None:
    found = await shelf.find("acme", name, NEWEST)
    return None if found is None else found.content.text


async def test_all_requests_of_a_moment_share_a_read() -> None:
    store: Any = Store()
    shelf = PrefixShelf(store)
    store.gate.clear()
    waiting = [asyncio.create_task(text_of(shelf)) for _ in range(20)]
    while not store.reads:
        await asyncio.sleep(0)
    waiting[0].cancel()
    store.gate.set()
    assert await asyncio.gather(*waiting[1:]) == ["one"] * 19
    assert await text_of(shelf) == "one"
    assert store.reads == 1


async def test_what_changed_here_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = Store()
    shelf = PrefixShelf(store)
    assert await text_of(shelf) == "one"
    store.gate.clear()
    monkeypatch.setattr(bounds, "_FRESH_S", 0.0)
    old = asyncio.create_task(text_of(shelf))
    while store.reads < 2:
        await asyncio.sleep(0)
    monkeypatch.undo()
    store.text = "two"
    shelf.forget("acme", "p")
    store.gate.set()
    assert await old == "one"
    assert await text_of(shelf) == "two", "a read that began before brings back nothing old"
    store.text = ""
    shelf.forget("acme", "p")
    assert await text_of(shelf) is None


async def test_while_the_database_is_away_what_is_known_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store: Any = Store()
    shelf = PrefixShelf(store)
    assert await text_of(shelf) == "one"
    monkeypatch.setattr(bounds, "_FRESH_S", 0.0)
    store.fault = WeirError(Reason.STATE_UNAVAILABLE, "away")
    assert await text_of(shelf) == "one"
    with pytest.raises(WeirError, match="away"):
        await text_of(shelf, "other")
    monkeypatch.setattr(bounds, "_STALE_S", 0.0)
    with pytest.raises(WeirError, match="away"):
        await text_of(shelf)


async def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_MOST_CHARACTERS", 6)
    store: Any = Store()
    shelf = PrefixShelf(store)
    for name in ("a", "b", "c"):
        await text_of(shelf, name)
    assert len(shelf._kept) == 2
    assert shelf._characters == 6
    await text_of(shelf, "b")
    assert store.reads == 3
    await text_of(shelf, "a")
    assert store.reads == 4
