"""Calls of one turn of the event loop travel to the server together, and fail apart."""

import asyncio

import redis

from tests.ratelimiter.builders import bucket, command, exact, record_of
from tests.ratelimiter.lossy_proxy import lossy_proxy
from tests.ratelimiter.valkey import Valkey
from weir_core.errors import WeirError
from weir_ratelimiter.domain.limit import Resource
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.store.base import Reserved
from weir_ratelimiter.store.redis import keyspace
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore

PATIENT = RedisOptions(timeout_s=20)
LIMITS = (bucket("tenant:acme/rps", Resource.REQUESTS, 500, period_ms=10**9),)
BY_KEY = {limit.key: limit for limit in LIMITS}
MANY = 100


async def test_calls_of_one_turn_need_a_connection_for_each_batch(
    store: RedisStore, client: redis.Redis
) -> None:
    before = _connections(client)
    answers = await asyncio.gather(*(_reserve(store, number) for number in range(MANY)))
    # At most 64 in a batch, and one connection was there before.
    assert _connections(client) - before <= 1
    assert [_request_of(answer) for answer in answers] == [f"r{n}" for n in range(MANY)]
    assert await _remaining(store) == 500 - MANY


async def test_one_that_is_refused_does_not_fail_the_others(
    store: RedisStore, client: redis.Redis
) -> None:
    bad = Subject("bad", "", "", "m")
    client.set(keyspace.tenant_hash("bad"), "no hash")
    before, refused, after = await asyncio.gather(
        _reserve(store, 1),
        store.reserve(command("r2", LIMITS, subject=bad)),
        _reserve(store, 3),
        return_exceptions=True,
    )
    assert isinstance(refused, WeirError)
    assert "WRONGTYPE" in str(refused)
    assert isinstance(before, Reserved)
    assert isinstance(after, Reserved)
    assert (_request_of(before), _request_of(after)) == ("r1", "r3")


async def test_one_whose_caller_goes_away_takes_no_other_with_it(store: RedisStore) -> None:
    calls = [asyncio.create_task(_reserve(store, number)) for number in range(9)]
    await asyncio.sleep(0)
    for gone in calls[::2]:
        gone.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    stayed = [answer for answer in answers[1::2] if isinstance(answer, Reserved)]
    assert [_request_of(answer) for answer in stayed] == ["r1", "r3", "r5", "r7"]


async def test_a_library_that_is_lost_is_sent_and_every_call_made_again(
    store: RedisStore, client: redis.Redis
) -> None:
    client.function_flush()
    answers = await asyncio.gather(*(_reserve(store, number) for number in range(9)))
    assert [_request_of(answer) for answer in answers] == [f"r{n}" for n in range(9)]
    assert await _remaining(store) == 500 - 9


async def test_a_batch_whose_answers_are_lost_is_charged_once(valkey: Valkey) -> None:
    async with lossy_proxy(valkey.port) as proxy:
        store = await RedisStore.open(f"redis://127.0.0.1:{proxy.port}/0", PATIENT)
        try:
            # Until an answer has told it the server's time, a store asks in vain.
            await _remaining(store)
            proxy.lose_answers(1)
            answers = await asyncio.gather(*(_reserve(store, number) for number in range(9)))
            # The first was carried out; the connection was cut before or after the others.
            assert any(answer.replayed for answer in answers)
            proxy.lose_answers(1)
            records = [record_of(_held(answer), store.epoch) for answer in answers]
            ended = await asyncio.gather(
                *(store.settle(record, exact(10, 7), BY_KEY) for record in records)
            )
            assert any(end.already for end in ended)
            assert await _remaining(store) == 500 - 9
            assert len(await store.outbox(MANY)) == 9
        finally:
            await store.close()


def _connections(client: redis.Redis) -> int:
    stats = client.info("stats")
    assert isinstance(stats, dict)
    return int(stats["total_connections_received"])


async def _reserve(store: RedisStore, number: int) -> Reserved:
    return await store.reserve(command(f"r{number}", LIMITS))


def _held(reserved: Reserved) -> Reservation:
    assert reserved.reservation is not None
    return reserved.reservation


def _request_of(reserved: Reserved) -> str:
    return _held(reserved).request_id


async def _remaining(store: RedisStore) -> int:
    (state,) = await store.states("acme", LIMITS)
    return state.remaining
