"""Sessions in both databases."""

from dataclasses import replace

import pytest

from weir_core.errors import Reason, WeirError
from weir_gateway.sessions.session import Session, conversation_session_id, new_session_id
from weir_gateway.sessions.session_use import SessionUse
from weir_gateway.sessions.store import Deletion, SessionStore
from weir_gateway.state.database import StateDatabase

NOW = 1_800_000_000_000
TTL = 900_000


def a_session(number: int = 1, tenant: str = "acme", **changes: object) -> Session:
    session = Session(
        id=f"ses_{number}",
        tenant_id=tenant,
        model="tiny",
        conversation_id="",
        created_ms=NOW + number,
        last_use_ms=NOW + number,
        idle_ttl_ms=TTL,
    )
    return replace(session, **changes)  # type: ignore[arg-type]


async def test_a_session_is_found_by_its_own_tenant_alone(state: StateDatabase) -> None:
    store = SessionStore(state)
    await store.add(a_session())
    assert await store.find("acme", "ses_1") == a_session()
    assert await store.find("globex", "ses_1") is None
    assert await store.page("globex", NOW + 5, 10, None) == []
    assert await store.delete("globex", "ses_1", NOW + 5) is None
    assert await store.find("acme", "ses_1") is not None


async def test_pages_go_from_new_to_old_without_gap_or_repeat(state: StateDatabase) -> None:
    store = SessionStore(state)
    # Two of one millisecond, and one that has ended.
    for number in (1, 2, 3, 4, 5):
        await store.add(a_session(number, created_ms=NOW + number // 2))
    await store.add(a_session(9, last_use_ms=NOW - TTL))
    found, before = [], None
    while page := await store.page("acme", NOW + 10, 2, before):
        found += [session.id for session in page]
        before = page[-1].created_ms, page[-1].id
    assert found == ["ses_5", "ses_4", "ses_3", "ses_2", "ses_1"]


async def test_a_deletion_is_numbered_and_names_who_holds_the_kv(state: StateDatabase) -> None:
    store = SessionStore(state)
    await store.add(a_session())
    use = SessionUse(tenant_id="acme", session_id="ses_1", last_use_ms=NOW + 50, tokens=7)
    use.homes = {"w1": "h:1", "w2": "h:2"}
    assert await store.note([use]) == []
    before, _ = await store.deleted_since(None)
    assert await store.delete("acme", "ses_1", NOW + 60) == {"w1": "h:1", "w2": "h:2"}
    last, deleted = await store.deleted_since(before)
    assert deleted == [Deletion("acme", "ses_1")]
    assert await store.deleted_since(last) == (last, ())
    assert await store.find("acme", "ses_1") is None
    assert await store.delete("acme", "ses_1", NOW + 60) is None
    assert await store.note([use]) == [use], "a use of what is gone brings nothing back"


async def test_a_use_renews_and_never_shortens_a_life(state: StateDatabase) -> None:
    store = SessionStore(state)
    await store.add(a_session())
    late = SessionUse(tenant_id="acme", session_id="ses_1", last_use_ms=NOW + 9_000, tokens=40)
    early = SessionUse(tenant_id="acme", session_id="ses_1", last_use_ms=NOW + 10)
    await store.note([late])
    await store.note([early])
    found = await store.find("acme", "ses_1")
    assert found is not None
    assert (found.last_use_ms, found.tokens, found.expires_ms) == (NOW + 9_000, 40, NOW + 909_000)


async def test_uses_add_up_in_any_order() -> None:
    first = SessionUse(tenant_id="t", session_id="s", last_use_ms=5, tokens=10)
    second = SessionUse(tenant_id="t", session_id="s", last_use_ms=9, tokens=20)
    third = SessionUse(tenant_id="t", session_id="s", last_use_ms=7)
    for order in ((first, second, third), (second, third, first), (third, second, first)):
        total = replace(order[0])
        for use in order[1:]:
            total.add(use)
        assert (total.last_use_ms, total.tokens) == (9, 20)


async def test_a_conversation_is_made_once_and_anew_when_it_has_ended(
    state: StateDatabase,
) -> None:
    store = SessionStore(state)
    first = a_session(conversation_id="chat")
    assert await store.ensure(first) == first
    again = replace(first, created_ms=NOW + 500, last_use_ms=NOW + 500)
    assert await store.ensure(again) == first, "the one that lives is kept"
    much_later = replace(first, created_ms=NOW + TTL + 1, last_use_ms=NOW + TTL + 1)
    assert await store.ensure(much_later) == much_later


async def test_a_tenant_has_so_many_sessions_and_takes_no_place_of_another(
    state: StateDatabase,
) -> None:
    store = SessionStore(state, most=2)
    await store.add(a_session(1))
    await store.ensure(a_session(2, conversation_id="chat"))
    for call in (store.add, store.ensure):
        with pytest.raises(WeirError, match="2 sessions of at most 2; delete some") as caught:
            await call(a_session(3))
        assert caught.value.reason is Reason.STORAGE_EXCEEDED
    again = await store.ensure(a_session(2, conversation_id="chat", created_ms=NOW + 9))
    assert again.created_ms == NOW + 2, "the one of the label is there"
    await store.ensure_all([a_session(3), a_session(7, "globex")])
    assert await store.find("acme", "ses_3") is None
    assert await store.find("globex", "ses_7") is not None
    late = NOW + TTL + 2
    await store.add(a_session(4, created_ms=late, last_use_ms=late))
    assert await store.find("acme", "ses_4") is not None, "the first has ended meanwhile"


async def test_a_guess_at_a_deletion_is_told_to_nobody(state: StateDatabase) -> None:
    store = SessionStore(state)
    before, _ = await store.deleted_since(None)
    for _ in range(3):
        assert await store.delete("acme", "ses_guessed", NOW) is None
    assert await store.deleted_since(before) == (before, ())


async def test_what_ended_long_ago_is_forgotten(state: StateDatabase) -> None:
    store = SessionStore(state)
    await store.add(a_session(1))
    await store.add(a_session(2, last_use_ms=NOW + TTL))
    await store.purge(NOW + TTL + 700_000)
    assert await store.find("acme", "ses_1") is None
    assert await store.find("acme", "ses_2") is not None


def test_ids_are_unguessable_and_of_one_form() -> None:
    random = {new_session_id() for _ in range(100)}
    assert len(random) == 100
    ids = {
        conversation_session_id(secret, tenant, model, label)
        for secret in (b"one", b"two")
        for tenant in ("a", "b")
        for model in ("m", "n")
        for label in ("x", "y")
    }
    assert len(ids) == 16
    assert conversation_session_id(b"one", "a", "m", "x") in ids
    assert {len(one) for one in random | ids} == {4 + 32}, "24 bytes, 192 bits, in base64"
