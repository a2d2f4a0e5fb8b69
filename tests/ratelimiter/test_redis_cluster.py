"""The store on three real nodes: every limit holds, whichever slot it lies in."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.ratelimiter.builders import bucket, command, exact, in_flight, lease, record_of
from tests.ratelimiter.valkey import ValkeyCluster
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Limit, Resource
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.base import Limits, Reserved
from weir_ratelimiter.store.redis.cluster_store import ClusterStore
from weir_ratelimiter.store.redis.keyspace import SHARED_HASH
from weir_ratelimiter.store.redis.opening import open_redis
from weir_ratelimiter.store.redis.options import RedisOptions

PATIENT = RedisOptions(timeout_s=5)
TENANTS = tuple(f"tenant{number}" for number in range(8))


@pytest.fixture
async def store(valkey_cluster: ValkeyCluster) -> AsyncIterator[ClusterStore]:
    opened = await open_redis(valkey_cluster.url, PATIENT)
    assert isinstance(opened, ClusterStore)
    yield opened
    await opened.close()


def limits_of(tenant: str, *, everybodys: int = 1_000, own: int = 1_000) -> tuple[Limit, ...]:
    return (
        bucket("cluster/tpm", Resource.TOKENS, everybodys, refill=0),
        lease("cluster/parallel", 100),
        bucket(f"tenant:{tenant}/tpm", Resource.TOKENS, own, refill=0),
        lease(f"tenant:{tenant}/parallel", 100),
        bucket("model:m/tpm", Resource.TOKENS, everybodys, refill=0),
    )


def subject(tenant: str) -> Subject:
    return Subject(tenant, "", "", "m")


async def remaining(store: ClusterStore, tenant: str, limits: tuple[Limit, ...]) -> list[int]:
    return [state.remaining for state in await store.states(tenant, limits)]


async def test_a_request_lives_and_ends_in_all_its_limits(store: ClusterStore) -> None:
    for tenant in TENANTS:
        limits = limits_of(tenant)
        by_key = {limit.key: limit for limit in limits}
        before = await remaining(store, tenant, limits)
        asked = command("r1", limits, max_new=60, subject=subject(tenant))
        reserved = await store.reserve(asked)
        assert reserved.reservation is not None
        assert reserved.states == await store.states(tenant, limits)
        assert (await store.reserve(asked)).replayed
        record = record_of(reserved.reservation, store.epoch)
        extended = await store.extend(
            record, Extension(Usage(10, 0, 20), additional_tokens=10), by_key
        )
        assert extended.reservation.output_tokens == 30
        during = await remaining(store, tenant, limits)
        assert during == [b - held for b, held in zip(before, (40, 1, 40, 1, 40), strict=True)]
        ended = await store.settle(record, exact(10, 7), by_key)
        assert ended.reservation.state is State.SETTLED
        assert (await store.settle(record, exact(10, 7), by_key)).already
        after = await remaining(store, tenant, limits)
        assert after == [b - used for b, used in zip(before, (17, 0, 17, 0, 17), strict=True)]
    assert len(await store.outbox(100)) == len(TENANTS)


async def test_what_the_tenants_limits_refuse_is_given_back_to_the_shared_ones(
    store: ClusterStore,
) -> None:
    small = limits_of("acme", own=40)
    first = await store.reserve(command("r1", small, subject=subject("acme")))
    assert first.reservation is not None
    before = await remaining(store, "acme", small)
    asked = command("r2", small, subject=subject("acme"))
    refused = await store.reserve(asked)
    assert [short.limit.key for short in refused.shortfalls] == ["tenant:acme/tpm"]
    assert await remaining(store, "acme", small) == before
    await store.settle(
        record_of(first.reservation, store.epoch), exact(1, 1), {x.key: x for x in small}
    )
    assert (await store.reserve(asked)).reservation is not None


async def test_a_refusal_names_the_limits_of_both_places(store: ClusterStore) -> None:
    limits = limits_of("acme", everybodys=35, own=35)
    await store.reserve(command("r1", limits, subject=subject("acme")))
    refused = await store.reserve(command("r2", limits, subject=subject("acme")))
    assert {short.limit.key for short in refused.shortfalls} == {
        "cluster/tpm",
        "tenant:acme/tpm",
        "model:m/tpm",
    }


async def test_tokens_in_flight_are_held_in_both_places_until_the_end(store: ClusterStore) -> None:
    limits = (in_flight("cluster/in_flight", 100), in_flight("tenant:acme/in_flight", 70))
    by_key = {limit.key: limit for limit in limits}
    first = await store.reserve(command("r1", limits, max_new=90, subject=subject("acme")))
    assert first.reservation is not None
    record = record_of(first.reservation, store.epoch)
    await store.extend(record, Extension(Usage(10, 0, 20), additional_tokens=25), by_key)
    assert await remaining(store, "acme", limits) == [45, 15]
    refused = await store.reserve(command("r2", limits, subject=subject("acme")))
    assert [short.limit.key for short in refused.shortfalls] == ["tenant:acme/in_flight"]
    stopped = await store.extend(record, Extension(Usage(10, 0, 45), additional_tokens=16), by_key)
    (short,) = stopped.shortfalls
    expected = ("tenant:acme/in_flight", 16, 55)
    assert (short.limit.key, short.requested, short.used) == expected
    await store.settle(record, exact(10, 45), by_key)
    assert await remaining(store, "acme", limits) == [100, 70]


async def test_shared_limits_are_adjusted_once_and_the_ledger_is_told(store: ClusterStore) -> None:
    limits = limits_of("acme")
    await store.reserve(command("r1", limits, subject=subject("acme")))
    for limit in (limits[0], limits[2]):
        adjustment = Adjustment(limit.key, subject("acme"), limit, 5, "goodwill")
        assert (await store.adjust(adjustment)).state.remaining == 975
        assert (await store.adjust(adjustment)).replayed
    events = [entry.event for entry in await store.outbox(10)]
    assert {event.limit_id for event in events} == {"cluster/tpm", "tenant:acme/tpm"}


async def test_many_at_once_over_all_nodes_never_pass_a_shared_limit(
    valkey_cluster: ValkeyCluster,
) -> None:
    stores = [await ClusterStore.open(valkey_cluster.url, PATIENT) for _ in range(3)]
    try:
        answers = await asyncio.gather(
            *(
                stores[number % 3].reserve(
                    command(
                        f"r{number}",
                        limits_of(tenant, everybodys=300),
                        subject=subject(tenant),
                    )
                )
                for number in range(10)
                for tenant in TENANTS
            )
        )
        assert sum(answer.reservation is not None for answer in answers) == 10
        left = await remaining(stores[0], "tenant0", limits_of("tenant0", everybodys=300))
        assert (left[0], left[1], left[4]) == (0, 90, 0)
    finally:
        for store in stores:
            await store.close()


async def test_a_shared_half_that_nobody_ends_lapses_and_is_given_back(
    valkey_cluster: ValkeyCluster,
) -> None:
    clock = {"now": 1_800_000_000_000}
    store = await ClusterStore.open(valkey_cluster.url, PATIENT, forced_ms=lambda: clock["now"])
    limits = limits_of("acme")
    by_key = {limit.key: limit for limit in limits}
    before = await remaining(store, "acme", limits)
    await store.reserve(command("r1", limits, subject=subject("acme"), ttl_ms=2_000))
    clock["now"] += 2_000
    for reservation in await store.lapsed(100):
        assert (await store.expire(reservation, by_key)) is not None
    assert await remaining(store, "acme", limits) == before
    [entry] = await store.outbox(10)
    assert entry.event.subject.tenant_id == "acme"
    await store.close()


async def test_a_lost_node_is_told(store: ClusterStore, valkey_cluster: ValkeyCluster) -> None:
    with valkey_cluster.nodes[0].client() as client:
        place = client.execute_command("CLUSTER KEYSLOT", SHARED_HASH)
    assert isinstance(place, int)
    node = valkey_cluster.nodes[min(2, place * 3 // 16_384)]
    impatient = await ClusterStore.open(valkey_cluster.url, RedisOptions(timeout_s=1))
    node.pause()
    try:
        with pytest.raises(WeirError) as caught:
            await impatient.reserve(command("r1", limits_of("acme"), subject=subject("acme")))
        assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
    finally:
        node.resume()
        await impatient.close()


async def test_a_late_undo_frees_nothing_that_a_repeat_counts_on(
    valkey_cluster: ValkeyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenant refuses, and the undo is still under way when the client's repeat is admitted."""
    late, repeating = [await ClusterStore.open(valkey_cluster.url, PATIENT) for _ in range(2)]
    undo, arrives = late._store.undo, asyncio.Event()

    async def delayed(record: Record, limits: Limits) -> None:
        await arrives.wait()
        await undo(record, limits)

    monkeypatch.setattr(late._store, "undo", delayed)
    small, large = limits_of("acme", own=10), limits_of("acme")
    try:
        before = await remaining(repeating, "acme", large)
        refused = asyncio.create_task(late.reserve(command("r1", small, subject=subject("acme"))))
        while (await remaining(repeating, "acme", large))[0] == before[0]:
            await asyncio.sleep(0.01)
        repeated = await repeating.reserve(command("r1", large, subject=subject("acme")))
        assert repeated.reservation is not None
        arrives.set()
        assert (await refused).reservation is None
        held = await remaining(repeating, "acme", large)
        assert [b - h for b, h in zip(before, held, strict=True)] == [30, 1, 30, 1, 30]
        record = record_of(repeated.reservation, repeating.epoch)
        await repeating.settle(record, exact(10, 7), {limit.key: limit for limit in large})
        used = await remaining(repeating, "acme", large)
        assert [b - u for b, u in zip(before, used, strict=True)] == [17, 0, 17, 0, 17]
    finally:
        await late.close()
        await repeating.close()


async def test_a_crash_between_the_halves_is_made_whole_by_a_repeat_or_lapses(
    valkey_cluster: ValkeyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"now": 1_800_000_000_000}
    crashing, other = [
        await ClusterStore.open(valkey_cluster.url, PATIENT, forced_ms=lambda: clock["now"])
        for _ in range(2)
    ]
    limits, small = limits_of("acme"), limits_of("acme", own=10)
    by_key = {limit.key: limit for limit in limits}
    reserve = crashing._store.reserve

    async def until_killed(asked: ReserveCommand, *, dry_run: bool = False) -> Reserved:
        if asked.subject.tenant_id == "acme":
            raise ProcessLookupError("killed")
        return await reserve(asked, dry_run=dry_run)

    monkeypatch.setattr(crashing._store, "reserve", until_killed)
    before = await remaining(other, "acme", limits)
    for request_id in ("repeated", "refused", "forgotten"):
        with pytest.raises(ProcessLookupError):
            await crashing.reserve(command(request_id, limits, subject=subject("acme")))
    half = await remaining(other, "acme", limits)
    assert [b - h for b, h in zip(before, half, strict=True)] == [90, 3, 0, 0, 90]

    whole = await other.reserve(command("repeated", limits, subject=subject("acme")))
    assert whole.reservation is not None
    # Whoever made a half may still be about to make the other: a repeat undoes nothing.
    refused = await other.reserve(command("refused", small, subject=subject("acme")))
    assert refused.reservation is None
    held = await remaining(other, "acme", limits)
    assert [b - h for b, h in zip(before, held, strict=True)] == [90, 3, 30, 1, 90]

    record = record_of(whole.reservation, other.epoch)
    await other.settle(record, exact(10, 20), by_key)
    clock["now"] += 30_000
    assert await other.lapsed(100) == []
    after = await remaining(other, "acme", limits)
    assert [b - a for b, a in zip(before, after, strict=True)] == [30, 0, 30, 0, 30]
    await crashing.close()
    await other.close()


async def test_a_node_that_lost_its_part_of_the_state_is_noticed(
    store: ClusterStore, valkey_cluster: ValkeyCluster
) -> None:
    seen = {await store.whole_epoch()}
    for lost, node in enumerate(valkey_cluster.nodes, 1):
        node.flush()
        await store.lapsed(1)
        assert store.states_lost == lost
        seen.add(await store.whole_epoch())
    assert len(seen) == 1 + len(valkey_cluster.nodes)
    other = await ClusterStore.open(valkey_cluster.url, PATIENT)
    assert other.epoch == store.epoch
    await other.close()
