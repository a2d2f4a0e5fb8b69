"""How sessions end, and what goes on without a database."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.gateway.harness import MODEL, running_gateway
from weir.directory.v1.directory_pb2 import Policy
from weir_core.clock import ManualClock
from weir_core.database.url import parse_database_url
from weir_core.errors import Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.sessions import use_writer
from weir_gateway.sessions.room import SessionRoom
from weir_gateway.sessions.session import Session
from weir_gateway.state.database import StateDatabase

SECRET = SecretStr("a-cluster-secret-of-at-least-32-characters")
MINUTE_US = 60_000_000


def caller(tenant: str = "acme", ttl_ms: int | None = None) -> Caller:
    policy = Policy()
    if ttl_ms is not None:
        policy.kv.session_ttl_ms = ttl_ms
    return Caller(
        tenant_id=tenant,
        user_id="u",
        key_id="k",
        plan_id="p",
        policy=policy,
        key_models=frozenset(),
        expire_us=0,
        version=1,
    )


def room_of(state: StateDatabase, clock: ManualClock) -> SessionRoom:
    def no_worker(address: str) -> None:
        raise AssertionError(address)

    return SessionRoom(
        state,
        RequestRecords(clock),
        no_worker,  # type: ignore[arg-type]
        secret=SECRET,
        clock=clock,
    )


async def test_an_idle_session_ends_and_each_request_renews_it(state: StateDatabase) -> None:
    clock = ManualClock()
    room = room_of(state, clock)
    desk, who = room.desk, caller(ttl_ms=600_000)
    room.start()
    try:
        session = await desk.create(who, "m", "", None)
        assert session.idle_ttl_ms == 600_000, "the tenant's default"
        request = GenerationRequest(model="m", session_id=session.id)
        for _ in range(3):
            clock.advance_us(9 * MINUTE_US)
            turn = await desk.turn_of(who, request, "m")
            assert turn is not None
            assert turn.ttl_ms == 600_000
            room.desk.turn_began(who.tenant_id, turn.session_id)
            while (await desk.get(who, session.id)).last_use_ms < clock.now_ms():
                await asyncio.sleep(0.01)
        clock.advance_us(10 * MINUTE_US)
        for call in (
            desk.turn_of(who, request, "m"),
            desk.get(who, session.id),
        ):
            with pytest.raises(WeirError, match="ended after 600 s") as caught:
                await call
            assert caught.value.reason is Reason.SESSION_NOT_FOUND
        assert await desk.page(who, 10, None) == []
    finally:
        await room.stop()


async def test_a_conversation_for_which_there_is_no_room_goes_on_and_is_kept_later(
    state: StateDatabase,
) -> None:
    room, who = room_of(state, ManualClock()), caller()
    desk = room.desk
    desk._store._most = 1
    room.start()
    try:
        session = await desk.create(who, "m", "", None)
        request = GenerationRequest(model="m", conversation_id="c")
        turn = await desk.turn_of(who, request, "m")
        assert turn is not None
        with pytest.raises(WeirError, match="there is no such session"):
            await desk.get(who, turn.session_id)
        with pytest.raises(WeirError, match="at most 1"):
            await desk.create(who, "m", "c", None)
        await desk.delete(who, session.id)
        desk.turn_began(who.tenant_id, turn.session_id)
        async with asyncio.timeout(20):
            while desk._cache.get(who.tenant_id, turn.session_id) is not None:
                await asyncio.sleep(0.01)
        assert await desk.turn_of(who, request, "m") == turn
        assert (await desk.get(who, turn.session_id)).conversation_id == "c"
    finally:
        await room.stop()


async def test_a_renewal_by_another_gateway_counts(state: StateDatabase) -> None:
    clock = ManualClock()
    rooms = [room_of(state, clock) for _ in range(2)]
    who = caller()
    for room in rooms:
        room.start()
    try:
        session = await rooms[0].desk.create(who, "m", "", None)
        request = GenerationRequest(model="m", session_id=session.id)
        for step in range(4):
            desk = rooms[step % 2].desk
            assert await desk.turn_of(who, request, "m")
            desk.turn_began(who.tenant_id, session.id)
            while (await rooms[0].desk.get(who, session.id)).last_use_ms < clock.now_ms():
                await asyncio.sleep(0.01)
            clock.advance_us(10 * MINUTE_US)
    finally:
        for room in rooms:
            await room.stop()


async def test_many_new_conversations_share_a_transaction(
    state: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, who = room_of(state, ManualClock()), caller()
    store = room.desk._store
    ensure_all, sizes = store.ensure_all, []

    async def counted(made: Iterable[Session]) -> None:
        some = list(made)
        sizes.append(len(some))
        await ensure_all(some)

    monkeypatch.setattr(store, "ensure_all", counted)
    # Else a conversation that waits longer for the busy machine goes on without being written.
    monkeypatch.setattr(use_writer, "_MAKE_S", 20.0)
    room.start()
    try:
        requests = [
            GenerationRequest(model="m", conversation_id=f"c {number % 100}")
            for number in range(200)
        ]
        turns = await asyncio.gather(*(room.desk.turn_of(who, one, "m") for one in requests))
        ids = {turn.session_id for turn in turns if turn is not None}
        assert len(ids) == 100
        for session_id in ids:
            assert (await room.desk.get(who, session_id)).conversation_id
        # One that was looked for just before it was written is written again.
        assert 100 <= sum(sizes) < 150
        assert len(sizes) < 50
    finally:
        await room.stop()


async def test_a_lost_database_refuses_sessions_but_no_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    url = parse_database_url(f"sqlite:///{folder}/state.sqlite", "state_url", "a test")
    state, clock, who = StateDatabase(url), ManualClock(), caller()
    room = room_of(state, clock)
    try:
        session = await room.desk.create(who, "m", "", None)
        label = GenerationRequest(model="m", conversation_id="c")
        known = await room.desk.turn_of(who, label, "m")
        (folder / "state.sqlite").rename(tmp_path / "elsewhere")
        with pytest.raises(WeirError) as caught:
            await room.desk.turn_of(who, GenerationRequest(model="m", session_id=session.id), "m")
        assert caught.value.reason is Reason.STATE_UNAVAILABLE
        assert await room.desk.turn_of(who, label, "m") == known
        reads = []
        monkeypatch.setattr(room.desk._store, "find", lambda *key: reads.append(key))
        assert await room.desk.turn_of(who, label, "m") == known
        assert not reads, "the next ones do not wait for it"
    finally:
        await room.stop()
        await state.close()


async def test_without_a_database_conversations_work_and_sessions_say_why(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        first = await gateway.chat(conversation_id="c")
        second = await gateway.chat(conversation_id="c")
        assert first.headers["x-weir-session-id"] == second.headers["x-weir-session-id"]
        assert len({spec.private_scope for spec in gateway.worker.specs}) == 1
        refused = await gateway.http.post("/v1/sessions", json={"model": MODEL})
        assert refused.json()["error"]["code"] == "state_off"
        named = await gateway.chat(session_id="ses_x")
        assert named.json()["error"]["code"] == "state_off"
        await gateway.at_rest()
