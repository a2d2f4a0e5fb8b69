"""Calls go in brief, by the digest of their plan, and in full only to a server that asks for it."""

from collections.abc import Iterator

import redis

from tests.ratelimiter.builders import bucket, command, exact, lease, record_of
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Resource
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.store.redis import keyspace
from weir_ratelimiter.store.redis.call import Call, row
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.scripts import Library
from weir_ratelimiter.store.redis.store import RedisStore

PATIENT = RedisOptions(timeout_s=20)
LIMITS = (
    bucket("cluster/tpm", Resource.TOKENS, 1_000, period_ms=10**9),
    bucket("tenant:acme/tpm", Resource.TOKENS, 500, period_ms=10**9),
    lease("tenant:acme/parallel", 8),
)
BY_KEY = {limit.key: limit for limit in LIMITS}
PROBE = Library.of(
    ("numbers", "layout", "plans"),
    {"probe": "local plan = plan_of(ARGV[1])\nreturn plan and plan.fields[1] or BRIEF"},
)


async def test_limits_that_a_server_knows_are_not_sent_again(
    store: RedisStore, client: redis.Redis
) -> None:
    await _held(store, "warm")
    with client.monitor() as monitor:  # type: ignore[no-untyped-call]
        seen = monitor.listen()
        held = await _held(store, "r1")
        await store.settle(record_of(held, store.epoch), exact(10, 7), BY_KEY)
        client.echo("end")
        calls = _until_end(seen)
    assert len(calls) == 2
    # The field of a bucket, which a plan names.
    assert not any("b:tenant:acme/tpm" in call for call in calls)


async def test_other_limits_are_sent_once(store: RedisStore, client: redis.Redis) -> None:
    await _held(store, "warm")
    more = (*LIMITS[:2], lease("tenant:acme/parallel", 9))
    client.config_resetstat()
    for name in ("r1", "r2"):
        assert (await store.reserve(command(name, more))).reservation is not None
    # In brief, in full, in brief.
    assert _functions(client) == 3


async def test_a_reservation_that_is_gone_is_rebuilt_from_what_is_sent_then(
    store: RedisStore, client: redis.Redis
) -> None:
    extended, settled = await _held(store, "r1"), await _held(store, "r2")
    warm = await _held(store, "warm")
    await store.settle(record_of(warm, store.epoch), exact(0, 0), BY_KEY)
    before = await _remaining(store)
    for gone in (extended, settled):
        client.delete(keyspace.reservation_key("acme", gone.id))
    client.config_resetstat()
    progress = Extension(Usage(10, 0, 1), dispatched=True)
    lost = await store.extend(record_of(extended, "an epoch before"), progress, BY_KEY)
    end = await store.settle(record_of(settled, "an epoch before"), exact(10, 7), BY_KEY)
    assert _functions(client) == 4
    assert lost.reservation.progress == Usage(10, 0, 1)
    assert not end.already
    # Each was debited again; the end gave back what it did not use.
    held = sum(entry.amount for entry in extended.entries if entry.key == "tenant:acme/tpm")
    assert before - await _remaining(store) == held + 17
    again = await store.settle(record_of(settled, "an epoch before"), exact(10, 7), BY_KEY)
    assert again.already


def test_plans_are_forgotten_a_generation_at_a_time(client: redis.Redis) -> None:
    few = PROBE.source.replace("MOST_PLANS = 8192", "MOST_PLANS = 2")
    assert few != PROBE.source
    client.function_load(few, replace=True)
    calls = [Call("", (), b"", plan=_plan(f"field{n}")) for n in range(5)]

    def ask(argument: bytes) -> object:
        return client.fcall(PROBE.name_of("probe"), 0, argument)

    first, second, third, fourth, never = calls
    assert ask(never.in_brief[1]) == [b"brief"]
    for call in (first, second, third):
        assert isinstance(ask(call.in_full[1]), bytes)
    assert ask(third.in_brief[1]) == b"field2"
    # One of the older ones that is in use stays; the other goes with its generation.
    assert ask(first.in_brief[1]) == b"field0"
    assert ask(fourth.in_full[1]) == b"field3"
    assert ask(first.in_brief[1]) == b"field0"
    assert ask(second.in_brief[1]) == [b"brief"]


def _plan(field: str) -> bytes:
    return row(1, [field], [1], [1], [1], [1], [1], b"names", [0], [0], [0])


def _functions(client: redis.Redis) -> int:
    stats = client.info("commandstats")
    assert isinstance(stats, dict)
    return int(stats["cmdstat_fcall"]["calls"])


async def _held(store: RedisStore, name: str) -> Reservation:
    reserved = await store.reserve(command(name, LIMITS))
    assert reserved.reservation is not None
    return reserved.reservation


async def _remaining(store: RedisStore) -> int:
    states = await store.states("acme", LIMITS[1:2])
    return states[0].remaining


def _until_end(seen: Iterator[dict[str, str]]) -> list[str]:
    calls: list[str] = []
    for entry in seen:
        if entry["command"].lower().startswith("echo"):
            return calls
        if entry["command"].lower().startswith("fcall"):
            calls.append(entry["command"])
    raise AssertionError("the monitor ended")
