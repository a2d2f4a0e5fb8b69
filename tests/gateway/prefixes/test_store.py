"""Prefixes in both databases."""

import pytest

from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.prefixes import store as limits
from weir_gateway.prefixes.prefix import NEWEST, Prefix, PrefixContent, Warmth
from weir_gateway.prefixes.store import PrefixStore
from weir_gateway.state.database import StateDatabase
from weir_gateway.text.chat import Chat, ChatMessage

NOW = 1_800_000_000_000
CHAT = PrefixContent(
    chat=Chat((ChatMessage("system", "You help.", name="n"),), ({"type": "function"},))
)


async def put(store: PrefixStore, name: str, text: str = "text", tenant: str = "acme") -> Prefix:
    content = PrefixContent(text=text)
    return await store.put(tenant, name, content, models=["m"], api_key_id="k", now_ms=NOW)


async def test_versions_count_up_and_old_ones_are_given_up(state: StateDatabase) -> None:
    store = PrefixStore(state)
    for number in range(1, 6):
        made = await put(store, "a", f"text {number}")
        assert made.version == number
        await store.warmed(made, [Warmth(model="m", worker_id="w", time_ms=NOW, prompt_tokens=3)])
    assert await store.find("acme", "a", 2) is None
    newest = await store.find("acme", "a", NEWEST)
    third = await store.find("acme", "a", 3)
    assert newest is not None
    assert third is not None
    assert (newest.version, newest.content.text) == (5, "text 5")
    assert third.content.text == "text 3"
    assert [prefix.version for prefix in await store.page("acme", 10, None)] == [3, 4, 5]
    assert await store.delete("acme", "a", 5)
    assert (await store.find("acme", "a", NEWEST)).version == 4  # type: ignore[union-attr]
    assert await store.delete("acme", "a", NEWEST)
    assert await store.find("acme", "a", NEWEST) is None
    assert not await store.delete("acme", "a", NEWEST)
    assert (await put(store, "a")).version == 6, "a number never comes back"


async def test_names_that_were_used_are_bounded_too(
    state: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_EVER", 2)
    store = PrefixStore(state)
    for name in ("a", "b"):
        await put(store, name)
        await store.delete("acme", name, NEWEST)
    with pytest.raises(InvalidField, match="2 that were used already; use one of them again"):
        await put(store, "c")
    assert (await put(store, "b")).version == 2
    assert (await put(store, "c", tenant="globex")).version == 1


async def test_all_prefixes_of_a_tenant_are_bounded_together(
    state: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_STORED", 350)
    store = PrefixStore(state)
    for _ in range(5):
        await put(store, "a", "x" * 100)
    with pytest.raises(WeirError, match="of at most 350; delete some") as caught:
        await put(store, "b", "x" * 100)
    assert caught.value.reason is Reason.STORAGE_EXCEEDED
    assert [one.version for one in await store.page("acme", 9, None)] == [3, 4, 5]
    await put(store, "b", "x" * 100, tenant="globex")
    await store.delete("acme", "a", 4)
    assert (await put(store, "b", "x" * 100)).version == 1


async def test_what_is_kept_is_what_was_put(state: StateDatabase) -> None:
    store = PrefixStore(state)
    made = await store.put("acme", "c", CHAT, models=["m", "n"], api_key_id="k", now_ms=NOW)
    assert await store.find("acme", "c", NEWEST) == made
    (listed,) = await store.page("acme", 10, None)
    assert (listed.models, listed.content) == (("m", "n"), PrefixContent())


async def test_another_tenants_is_not_there(state: StateDatabase) -> None:
    store = PrefixStore(state)
    await put(store, "a", "mine")
    assert (await put(store, "a", "theirs", "globex")).version == 1
    assert await store.page("initech", 10, None) == []
    assert await store.find("initech", "a", 1) is None
    assert not await store.delete("initech", "a", NEWEST)
    assert await store.delete("globex", "a", NEWEST)
    mine = await store.find("acme", "a", 1)
    assert mine is not None
    assert mine.content.text == "mine"


async def test_pages_go_by_name_and_version(state: StateDatabase) -> None:
    store = PrefixStore(state)
    for name in ("b", "a", "c", "a"):
        await put(store, name)
    found: list[tuple[str, int]] = []
    after = None
    while page := await store.page("acme", 1, after):
        after = page[-1].name, page[-1].version
        found.append(after)
    assert found == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


async def test_names_are_bounded(state: StateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_NAMES", 2)
    store = PrefixStore(state)
    await put(store, "a")
    await put(store, "b")
    with pytest.raises(InvalidField, match="delete one"):
        await put(store, "c")
    assert (await put(store, "b")).version == 2
    await store.delete("acme", "a", NEWEST)
    assert (await put(store, "c")).version == 1


async def test_one_gateway_of_many_computes_it_on_a_worker(state: StateDatabase) -> None:
    store = PrefixStore(state)
    prefix = await put(store, "a")
    assert await store.claim(prefix, "m", "w1", NOW)
    assert not await store.claim(prefix, "m", "w1", NOW + 1)
    assert await store.claim(prefix, "m", "w2", NOW + 1)
    assert await store.warmths(prefix) == [], "claimed is not computed"
    warmth = Warmth(model="m", worker_id="w1", time_ms=NOW + 9, prompt_tokens=30)
    await store.warmed(prefix, [warmth])
    assert await store.warmths(prefix) == [warmth]
    much_later = NOW + 3_600_000
    assert not await store.claim(prefix, "m", "w1", much_later), "it was computed"
    assert await store.claim(prefix, "m", "w2", much_later), "who claimed it has died over it"
    assert [one.version for one in await store.newest_of_models()] == [1]
    await put(store, "a")
    assert await store.newest_of_models() == [], "the newest was computed nowhere"
