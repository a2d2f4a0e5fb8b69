"""The store on three real nodes: every limit holds, whichever slot it lies in."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.ratelimiter.builders import bucket, command, exact, lease, record_of
from tests.ratelimiter.valkey import ValkeyCluster
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Limit, Resource
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.store.redis.cluster_store import ClusterStore
from weir_ratelimiter.store.redis.keyspace import SHARED_HASH
from weir_ratelimiter.store.redis.opening import open_redis
from weir_ratelimiter.store.redis.store import RedisOptions

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
