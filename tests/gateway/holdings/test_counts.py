"""What tenants hold is counted and bounded, on both databases, whoever adds at the same time."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, text, update

from tests.gateway.jobs.making import a_job
from weir.directory.v1.directory_pb2 import KeepPolicy
from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_gateway.files.bounds import FileBounds
from weir_gateway.files.file_store import FileStore
from weir_gateway.holdings.bounds import (
    Held,
    Kind,
    idempotency_bound,
    response_bound,
    webhook_bound,
)
from weir_gateway.holdings.counts import HoldingCounts
from weir_gateway.holdings.recount import Recount
from weir_gateway.holdings.tables import holdings
from weir_gateway.idempotency.claim_store import Claim, ClaimStore
from weir_gateway.idempotency.kept_answer import KeptAnswer
from weir_gateway.idempotency.scoped_key import ScopedKey
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.store import JobStore
from weir_gateway.responses.store import ResponseStore, StoredResponse
from weir_gateway.state.database import StateDatabase
from weir_gateway.state.migrations.versions.v0008_holdings import counting
from weir_gateway.webhooks.outbox import Outbox
from weir_gateway.webhooks.secret_box import SecretBox
from weir_gateway.webhooks.secret_store import SecretStore

pytestmark = pytest.mark.asyncio
AT_ONCE = 12


async def refusals(calls: Iterable[Awaitable[object]]) -> list[Reason]:
    """Why some of the calls were refused; anything else that they raise fails the test."""
    ended = await asyncio.gather(*calls, return_exceptions=True)
    errors = [one for one in ended if isinstance(one, BaseException)]
    assert all(isinstance(one, WeirError) for one in errors), errors
    return [one.reason for one in errors if isinstance(one, WeirError)]


def response(number: int, tenant: str = "acme", **fields: Any) -> StoredResponse:
    made = StoredResponse(
        tenant_id=tenant,
        id=f"resp_{number:032x}",
        created_ms=1,
        expires_ms=10,
        chain_id="",
        background=False,
        response={"status": "completed"},
        items=[{"text": "x" * 100}],
    )
    return replace(made, **fields)


async def test_responses_that_are_added_at_once_stay_within_the_bound(
    state: StateDatabase,
) -> None:
    store = ResponseStore(state, lambda _: response_bound(KeepPolicy(max_responses=5)))
    counts = HoldingCounts(state, Kind.RESPONSES)
    refused = await refusals(store.add(response(n)) for n in range(AT_ONCE))
    assert refused == [Reason.STORAGE_EXCEEDED] * (AT_ONCE - 5)
    await store.add(response(99, "globex"))
    held = await counts.of("acme")
    assert (held.objects, held.size) == (5, 5 * (await counts.of("globex")).size)
    with pytest.raises(WeirError) as refusal:
        await store.check_room("acme")
    assert "keeps 5 responses of at most 5" in refusal.value.message
    assert "keep.max_responses" in refusal.value.message
    assert refusal.value.metadata == {"limit": "5", "used": "5", "requested": "1"}
    # What expires makes room at once, events included.
    while await store.remove_expired(10):
        pass
    assert await counts.of("acme") == Held()
    await store.add(response(100))


async def test_bytes_of_responses_are_those_of_their_rows_and_events(state: StateDatabase) -> None:
    store = ResponseStore(state, lambda _: response_bound(KeepPolicy(max_response_bytes=400)))
    counts, one = HoldingCounts(state, Kind.RESPONSES), response(1)
    await store.add(one)
    before = await counts.of("acme")
    async with state.writing() as connection:
        events = [{"sequence_number": 0, "type": "t", "text": "y" * 50}]
        size = await store.add_events(connection, "acme", one.id, events)
        grown = await store.change_in(
            connection, "acme", one.id, {"status": "failed", "z": "z" * 90}, expires_ms=20
        )
        assert grown is not None
        await store.count(connection, "acme", Held(size=size + grown), bounded=False)
    assert (await counts.of("acme")).size == before.size + size + grown
    assert size > 50
    assert grown > 80
    with pytest.raises(WeirError) as refusal:
        await store.add(response(2))
    assert "keep.max_response_bytes" in refusal.value.message
    # What an earlier release does not count is counted in the end.
    right = await counts.of("acme")
    async with state.writing() as connection:
        await connection.execute(update(holdings).values(objects=77, bytes=7))
    await Recount(state).run()
    assert await counts.of("acme") == right
    await store.delete("acme", one.id)
    assert await counts.of("acme") == Held()


def key_of(name: str) -> ScopedKey:
    return ScopedKey("acme", "/v1/x", name, b"f" * 32, "Idempotency-Key")


async def claimed(store: ClaimStore, name: str) -> Claim:
    found = await store.claim(key_of(name))
    assert isinstance(found, Claim)
    return found


async def test_a_key_too_many_is_refused_before_anything_runs(state: StateDatabase) -> None:
    store = ClaimStore(
        state,
        ManualClock(),
        lease_s=30,
        keep_s=60,
        bound_of=lambda _: idempotency_bound(KeepPolicy(max_idempotency_keys=3)),
    )
    first = await claimed(store, "first")
    refused = await refusals(store.claim(key_of(f"k{n}")) for n in range(AT_ONCE))
    assert refused == [Reason.STORAGE_EXCEEDED] * (AT_ONCE - 2)
    assert (await HoldingCounts(state, Kind.IDEMPOTENCY).of("acme")).objects == 3
    await store.free(first)
    await claimed(store, "later")


async def test_the_oldest_answers_make_room_and_their_requests_never_run_again(
    state: StateDatabase,
) -> None:
    clock, counts = ManualClock(), HoldingCounts(state, Kind.IDEMPOTENCY)
    store = ClaimStore(
        state,
        clock,
        lease_s=30,
        keep_s=3_600,
        bound_of=lambda _: idempotency_bound(KeepPolicy(max_idempotency_bytes=350)),
    )
    answer = KeptAnswer(200, b"h" * 100, b"")
    for number in range(5):
        clock.advance_us(1_000_000)
        assert await store.keep(await claimed(store, f"k{number}"), answer)
    assert isinstance(await store.claim(key_of("k4")), KeptAnswer)
    assert isinstance(await store.claim(key_of("k2")), KeptAnswer)
    for number in (0, 1):
        with pytest.raises(WeirError) as refusal:
            await store.claim(key_of(f"k{number}"))
        assert refusal.value.reason is Reason.IDEMPOTENCY_CONFLICT
        assert "made room for newer ones" in refusal.value.message
    held = await counts.of("acme")
    assert held.objects == 5
    assert 300 <= held.size <= 350
    await Recount(state).run()
    assert await counts.of("acme") == held
    clock.advance_us(4_000 * 1_000_000)
    assert not await store.remove_expired()
    assert await counts.of("acme") == Held()


async def test_webhooks_that_wait_leave_no_room_and_ended_ones_do(state: StateDatabase) -> None:
    clock = ManualClock()
    dropped: list[int] = []
    outbox = Outbox(
        state,
        SecretStore(state, clock, SecretBox("a" * 32)),
        clock,
        bound_of=lambda _: webhook_bound(KeepPolicy(max_webhooks=4)),
        dropped=dropped.append,
    )

    async def tell() -> int:
        async with state.writing() as connection:
            return await outbox.enqueue(connection, "acme", "job.completed", {}, "https://a.b/c")

    queued = await asyncio.gather(*(tell() for _ in range(AT_ONCE)))
    assert sum(queued) == 4
    assert sum(dropped) == AT_ONCE - 4
    first, second, *_ = await outbox.take_due(10, ())
    await outbox.delivered(first, 200)
    await outbox.failed(second, 500, "no", None)
    assert [await tell() for _ in range(3)] == [1, 1, 0]
    counts = HoldingCounts(state, Kind.WEBHOOKS)
    assert (await counts.of("acme")).objects == 4
    clock.advance_us(8 * 86_400 * 1_000_000)
    assert await outbox.remove_old() == 4
    assert await counts.of("acme") == Held()
    assert await tell() == 1


async def test_jobs_that_are_submitted_at_once_stay_within_their_tokens(
    state: StateDatabase,
) -> None:
    clock = ManualClock()
    store = JobStore(state, JobEnds(), clock, retention_ms=1_000)
    refused = await refusals(
        store.add(a_job(clock, enqueued_tokens=10), most_tokens=45) for _ in range(AT_ONCE)
    )
    assert refused == [Reason.ENQUEUED_TOKENS_EXCEEDED] * (AT_ONCE - 4)
    async with state.writing() as connection:
        assert await store.enqueued_tokens(connection, "acme", "tiny") == 40


async def test_uploads_at_once_stay_within_files_and_bytes(state: StateDatabase) -> None:
    store = FileStore(state, ManualClock())
    bounds = FileBounds(files=5, size=35)
    refused = await refusals(store.begin("acme", bounds) for _ in range(AT_ONCE))
    assert refused == [Reason.STORAGE_EXCEEDED] * (AT_ONCE - 5)
    wide = FileBounds(files=100, size=35)
    ids = [await store.begin("acme", wide) for _ in range(AT_ONCE)]
    refused = await refusals(store.append(file_id, b"x" * 10, wide) for file_id in ids)
    assert refused == [Reason.STORAGE_EXCEEDED] * (AT_ONCE - 3)


async def test_the_migration_counts_what_an_earlier_release_has_kept(
    state: StateDatabase,
) -> None:
    clock, responses = ManualClock(), ResponseStore(state)
    claims = ClaimStore(state, clock, lease_s=30, keep_s=60)
    outbox = Outbox(state, SecretStore(state, clock, SecretBox("a" * 32)), clock)
    for tenant in ("acme", "acme", "globex"):
        clock.advance_us(1)
        await responses.add(response(clock.now_us(), tenant))
        async with state.writing() as connection:
            await outbox.enqueue(connection, tenant, "job.completed", {}, "https://a.b/c")
    await claimed(claims, "open")
    assert await claims.keep(await claimed(claims, "kept"), KeptAnswer(200, b"head", b"body"))
    async with state.writing() as connection:
        events = [{"sequence_number": 0, "type": "t"}]
        size = await responses.add_events(connection, "acme", response(1).id, events)
        await responses.count(connection, "acme", Held(size=size), bounded=False)
    counts = [HoldingCounts(state, kind) for kind in (Kind.RESPONSES, Kind.IDEMPOTENCY)]
    counts.append(HoldingCounts(state, Kind.WEBHOOKS))
    before = [await count.of(tenant) for count in counts for tenant in ("acme", "globex")]
    assert [held.objects for held in before] == [2, 1, 2, 0, 2, 1]
    async with state.writing() as connection:
        await connection.execute(delete(holdings))
        for statement in counting():
            await connection.execute(text(statement))
    assert [await count.of(tenant) for count in counts for tenant in ("acme", "globex")] == before


async def test_counts_never_fall_below_nothing(state: StateDatabase) -> None:
    counts = HoldingCounts(state, Kind.RESPONSES)
    async with state.writing() as connection:
        assert await counts.add(connection, "acme", Held(1, 5)) == Held(1, 5)
        await counts.remove(connection, [("acme", 9), ("acme", 9), ("globex", 1)])
    assert await counts.of("acme") == Held()
    assert await counts.of("globex") == Held()
