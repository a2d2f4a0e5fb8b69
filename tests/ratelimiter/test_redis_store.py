"""What the store does beside deciding: calls on the wire, faults, start, sweep, outbox."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
import redis

from tests.ratelimiter.builders import SUBJECT, bucket, command, exact, lease, record_of
from tests.ratelimiter.valkey import Valkey, free_port, running_valkey
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_ratelimiter.domain.change import Count, WindowMove
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Limit, Resource
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.store.away import StoreAway
from weir_ratelimiter.store.redis import keyspace
from weir_ratelimiter.store.redis.checks import EPOCH_KEY
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.replicas import RedisReplicas
from weir_ratelimiter.store.redis.server import RedisServer
from weir_ratelimiter.store.redis.store import RedisStore

PATIENT = RedisOptions(timeout_s=5)
LIMITS = (
    bucket("cluster/tpm", Resource.TOKENS, 1_000),
    bucket("tenant:acme/rps", Resource.REQUESTS, 50, period_ms=1_000),
    bucket("tenant:acme/tpm", Resource.TOKENS, 500),
    lease("tenant:acme/parallel", 8),
)
BY_KEY = {limit.key: limit for limit in LIMITS}


def functions_sent(client: redis.Redis) -> dict[str, int]:
    """How often a function was called, and how often the library was sent."""
    stats = client.info("commandstats")
    assert isinstance(stats, dict)
    return {
        name: stats[f"cmdstat_{name}"]["calls"]
        for name in ("fcall", "function|load")
        if f"cmdstat_{name}" in stats
    }


async def levels(store: RedisStore, limits: tuple[Limit, ...] = LIMITS) -> list[int]:
    return [state.remaining for state in await store.states("acme", limits)]


async def test_every_decision_is_one_call(store: RedisStore, client: redis.Redis) -> None:
    await _live(store, "warm")
    with client.monitor() as monitor:  # type: ignore[no-untyped-call]
        seen = monitor.listen()
        reserved = await store.reserve(command("r1", LIMITS))
        assert reserved.reservation is not None
        record = record_of(reserved.reservation, store.epoch)
        await store.reserve(command("r1", LIMITS))
        await store.reserve(command("r2", LIMITS, prompt=10_000))
        await store.extend(record, Extension(Usage(10, 0, 5), additional_tokens=9), BY_KEY)
        await store.settle(record, exact(10, 7), BY_KEY)
        await store.settle(record, exact(10, 7), BY_KEY)
        await store.states("acme", LIMITS)
        client.echo("end")
        lines = _until_end(seen)
    assert [line.split(" ", 1)[0].lower() for line in lines] == ["fcall"] * 7


async def test_a_server_that_lost_its_scripts_gets_them_once(
    store: RedisStore, client: redis.Redis
) -> None:
    await _live(store, "warm")
    client.function_flush()
    client.config_resetstat()
    await store.reserve(command("r1", LIMITS))
    await store.reserve(command("r2", LIMITS))
    # Refused, in brief, in full; and the second one.
    assert functions_sent(client) == {"fcall": 4, "function|load": 1}


async def test_a_call_that_its_caller_gave_up_leaves_the_connection_in_step(
    store: RedisStore,
) -> None:
    calls = [asyncio.create_task(store.find("acme", f"nobody{n}")) for n in range(20)]
    reserve = [
        asyncio.create_task(store.reserve(command(f"gone{n}", LIMITS, prompt=1, output=1)))
        for n in range(20)
    ]
    for turns, task in enumerate([*calls, *reserve]):
        for _ in range(turns % 5):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*calls, *reserve, return_exceptions=True)
    for number in range(20):
        reserved = await store.reserve(command(f"r{number}", LIMITS, prompt=1, output=1))
        refused = reserved.shortfalls and {short.limit.key for short in reserved.shortfalls}
        assert refused or reserved.reservation is not None
        if reserved.reservation is not None:
            assert reserved.reservation.request_id == f"r{number}"
            record = record_of(reserved.reservation, store.epoch)
            ended = await store.settle(record, exact(1, 1), BY_KEY)
            assert ended.reservation.id == reserved.reservation.id


async def test_an_error_of_a_script_leaves_nothing_written(
    store: RedisStore, client: redis.Redis
) -> None:
    """Each key in turn holds what no script expects."""
    reserved = await store.reserve(command("r1", LIMITS))
    assert reserved.reservation is not None
    record = record_of(reserved.reservation, store.epoch)
    shard = keyspace.shard_of("acme")
    for key in (
        keyspace.tenant_hash("acme"),
        keyspace.outbox_key(shard),
        keyspace.reservation_key("acme", record.id),
        keyspace.SHARED_HASH,
    ):
        kept = client.dump(key)
        client.delete(key)
        client.rpush(key, "not what it was")
        before = _everything(client)
        with pytest.raises(WeirError) as caught:
            await store.settle(record, exact(10, 7), BY_KEY)
        assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
        # Or one tenant's key would put everybody on a share of the limits.
        assert not isinstance(caught.value, StoreAway)
        assert _everything(client) == before, key
        client.delete(key)
        if kept is not None:
            client.restore(key, 0, kept)
    assert (await store.settle(record, exact(10, 7), BY_KEY)).reservation.state is State.SETTLED


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a:b", "c"), ("a", "b:c")),
        (("a}", "x"), ("a", "}x")),
        (("{s:0000}", "x"), ("{g}", "x")),
        (("acme\r\nDEL", "x"), ("acme", "\r\nDEL x")),
        (("\u00e9", "x"), ("e\u0301", "x")),
        (("a\x00", "x"), ("a", "\x00x")),
        (("A" * 4096, "x"), ("A" * 4095, "Ax")),
        (("acme/grant", "x"), ("acme", "grant/x")),
    ],
)
def test_hostile_ids_share_no_key_and_stay_in_their_slot(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    keys = [_keys_of(*names) for names in (first, second)]
    assert not set(keys[0]) & set(keys[1])
    for names, own in zip((first, second), keys, strict=True):
        tag = f"{{s:{keyspace.shard_of(names[0]):04d}}}"
        for key in own:
            assert key.startswith(tag)
            assert key.isascii()
            assert key.isprintable()


async def test_tenants_with_look_alike_ids_have_accounts_of_their_own(store: RedisStore) -> None:
    tenants = ["a:b", "a", "{g}", "e\u0301", "\u00e9", "a\r\nb", "a\x00b"]
    for tenant in tenants:
        limit = bucket(f"tenant:{quote(tenant)}/tpm", Resource.TOKENS, 30)
        subject = Subject(tenant, "", "", "m")
        reserved = await store.reserve(command("r1", (limit,), subject=subject))
        assert reserved.reservation is not None, tenant
        [state] = await store.states(tenant, [limit])
        assert state.remaining == 0


@pytest.mark.parametrize(
    ("options", "knob"),
    [
        (("--maxmemory-policy", "allkeys-lru"), "noeviction"),
        (("--appendonly", "no"), "appendonly"),
    ],
)
async def test_a_server_that_may_forget_is_refused(
    tmp_path: Path, options: tuple[str, str], knob: str
) -> None:
    with running_valkey(tmp_path, *options) as server, pytest.raises(StartupError, match=knob):
        await RedisStore.open(server.url, PATIENT)


async def test_a_server_that_still_loads_is_not_taken_for_one_that_forgets(tmp_path: Path) -> None:
    """Until it has loaded its file, a server says that it keeps none."""
    with running_valkey(tmp_path, "--key-load-delay", "200") as server:
        with server.client() as client, client.pipeline(transaction=False) as keys:
            for number in range(20_000):
                keys.set(f"key{number}", "")
            keys.execute()
        server.kill()
        started = asyncio.create_task(asyncio.to_thread(server.start))
        async with asyncio.timeout(10):
            while "still loading" not in await _why_closed(server):
                await asyncio.sleep(0.01)
        with server.client() as client:
            client.config_set("key-load-delay", 0)
        await started
        assert await _why_closed(server) == ""


async def test_a_server_that_is_not_there_is_told_with_its_address_and_no_password() -> None:
    port = free_port()
    with pytest.raises(WeirError) as caught:
        await RedisStore.open(f"redis://me:secret@127.0.0.1:{port}/0", PATIENT)
    assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_malformed_url_is_refused_at_start() -> None:
    with pytest.raises(StartupError, match="store"):
        await RedisStore.open("http://nowhere")


async def test_a_full_server_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as server, server.client() as client:
        store = await RedisStore.open(server.url, PATIENT)
        with contextlib.closing(client):
            before = await levels(store)
            client.config_set("maxmemory", 1)
            with pytest.raises(WeirError, match="out of memory"):
                await store.reserve(command("r1", LIMITS))
            client.config_set("maxmemory", 0)
            assert await levels(store) == before
            await store.close()


async def test_a_replica_that_only_reads_is_told(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as server, server.client() as client:
        store = await RedisStore.open(server.url, PATIENT)
        client.replicaof("127.0.0.1", str(free_port()))
        with pytest.raises(WeirError, match="only reads"):
            await store.reserve(command("r1", LIMITS))
        await store.close()


async def test_a_silent_server_is_given_up_in_time(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as server:
        store = await RedisStore.open(server.url, RedisOptions(timeout_s=1.5))
        server.pause()
        try:
            with pytest.raises(WeirError, match="no answer in time"):
                async with asyncio.timeout(20):
                    await store.reserve(command("r1", LIMITS))
        finally:
            server.resume()
            await store.close()


async def test_a_request_that_comes_after_its_caller_gave_up_is_not_admitted(
    tmp_path: Path,
) -> None:
    """Else its caller is refused when it asks again, and the late one takes what comes free."""
    with running_valkey(tmp_path) as server, server.client() as client:
        store = await RedisStore.open(server.url, RedisOptions(timeout_s=1.5))
        before = await levels(store)
        server.pause()
        try:
            with pytest.raises(WeirError, match="no answer in time"):
                await store.reserve(command("r1", LIMITS))
        finally:
            server.resume()
        # Both tries are in its sockets.
        async with asyncio.timeout(10):
            while functions_sent(client)["fcall"] < 3:
                await asyncio.sleep(0.01)
        assert await levels(store) == before
        assert await store.find("acme", command("r1", LIMITS).id) is None
        await store.close()


async def test_a_killed_server_comes_back_with_every_level(tmp_path: Path) -> None:
    with running_valkey(tmp_path, "--appendfsync", "always") as server:
        store = await RedisStore.open(server.url, PATIENT)
        reserved = await store.reserve(command("r1", LIMITS))
        assert reserved.reservation is not None
        server.restart()
        again = await store.reserve(command("r1", LIMITS))
        assert again.replayed
        record = record_of(reserved.reservation, store.epoch)
        assert (await store.settle(record, exact(10, 7), BY_KEY)).already is False
        assert len(await store.outbox(10)) == 1
        await store.close()


async def test_lost_state_is_noticed_and_what_runs_is_rebuilt(
    store: RedisStore, valkey: Valkey
) -> None:
    reserved = await store.reserve(command("r1", LIMITS))
    assert reserved.reservation is not None
    before = store.epoch
    record = record_of(reserved.reservation, before)
    valkey.flush()
    await store.lapsed(10)
    assert store.states_lost == 1
    assert store.epoch != before
    await store.extend(record, Extension(Usage(10, 0, 1)), BY_KEY)
    states = {state.limit.key: state for state in await store.states("acme", LIMITS)}
    assert states["tenant:acme/tpm"].held == 30
    assert states["tenant:acme/parallel"].held == 1


async def test_an_orphan_of_a_process_that_died_is_found_by_another(
    store: RedisStore, valkey: Valkey
) -> None:
    other = await RedisStore.open(valkey.url, PATIENT)
    for number in range(3):
        tenant = Subject(f"tenant{number}", "", "", "m")
        await other.reserve(command("r1", LIMITS, ttl_ms=1, subject=tenant))
    await other.close()
    async with asyncio.timeout(10):
        while len(found := await store.lapsed(10)) < 3:
            await asyncio.sleep(0.02)
    for reservation in found:
        assert (await store.expire(reservation, BY_KEY)) is not None
    async with asyncio.timeout(10):
        while len(await store.outbox(10)) < 3:
            await asyncio.sleep(0.02)


async def test_no_request_is_admitted_while_the_ledger_is_too_far_behind(valkey: Valkey) -> None:
    options = msgspec.structs.replace(PATIENT, most_events=2)
    store = await RedisStore.open(valkey.url, options)
    for name in ("r1", "r2"):
        await _live(store, name)
    with pytest.raises(WeirError, match="2 events behind"):
        await store.reserve(command("r3", LIMITS))
    await store.acknowledge([entry.id for entry in await store.outbox(10)])
    assert (await store.reserve(command("r3", LIMITS))).reservation is not None
    await store.close()


async def test_old_windows_are_forgotten_when_a_new_one_begins(
    store: RedisStore, client: redis.Redis
) -> None:
    for day in range(1, 9):
        await store.seed("acme", [WindowMove("tenant:acme/day", f"2026-11-0{day}", Count(day))])
    fields = client.hkeys(keyspace.tenant_hash("acme"))
    assert sorted(fields) == [f"w:tenant:acme/day@2026-11-0{day}".encode() for day in (6, 7, 8)]


async def test_users_that_come_and_go_leave_no_buckets_behind(
    valkey: Valkey, client: redis.Redis
) -> None:
    clock = {"now": 1_800_000_000_000}
    store = await RedisStore.open(valkey.url, PATIENT, forced_ms=lambda: clock["now"])

    async def come_and_go(user: str) -> None:
        limits = (bucket(f"user:acme/{user}/tpm", Resource.TOKENS, 100), lease("tenant:acme/p", 9))
        reserved = await store.reserve(command(user, limits))
        assert reserved.reservation is not None
        record = record_of(reserved.reservation, store.epoch)
        await store.settle(record, exact(10, 7), {limit.key: limit for limit in limits})

    for number in range(60):
        await come_and_go(f"early{number}")
    assert client.hlen(keyspace.tenant_hash("acme")) == 61
    clock["now"] += PATIENT.remember_ms + 60_000
    for number in range(60):
        await come_and_go(f"late{number}")
    fields = client.hkeys(keyspace.tenant_hash("acme"))
    assert isinstance(fields, list)
    assert len([field for field in fields if b"early" in field]) < 10
    assert len([field for field in fields if b"late" in field]) == 60
    await store.close()


async def test_deployments_of_two_namespaces_share_a_server_and_nothing_else(
    store: RedisStore, valkey: Valkey, client: redis.Redis
) -> None:
    await _live(store, "r1")
    plain = set(client.keys("*"))
    options = msgspec.structs.replace(PATIENT, namespace="blue")
    blue = await RedisStore.open(valkey.url, options)
    replicas = RedisReplicas(RedisServer.of(valkey.url, 5, "blue"))
    try:
        assert blue.epoch != store.epoch
        before = await levels(store)
        reserved = await blue.reserve(command("r1", LIMITS))
        assert reserved.reservation is not None
        assert not reserved.replayed
        assert await levels(store) == before
        record = record_of(reserved.reservation, blue.epoch)
        await blue.extend(record, Extension(Usage(10, 0, 5), additional_tokens=1), BY_KEY)
        await blue.settle(record, exact(10, 7), BY_KEY)
        assert await blue.find("acme", record.id) is not None
        assert len(await blue.outbox(10)) == 1
        assert await replicas.beat() == 1
        assert set(client.keys("*")) - plain == set(client.keys("blue:*"))
    finally:
        await blue.close()
        await replicas.close()


async def test_the_epoch_is_made_once(store: RedisStore, valkey: Valkey) -> None:
    other = await RedisStore.open(valkey.url, PATIENT)
    assert other.epoch == store.epoch
    with valkey.client() as client:
        assert client.get(EPOCH_KEY) == store.epoch
    await other.close()


async def _live(store: RedisStore, name: str) -> None:
    reserved = await store.reserve(command(name, LIMITS))
    assert reserved.reservation is not None
    record = record_of(reserved.reservation, store.epoch)
    await store.extend(record, Extension(Usage(10, 0, 1)), BY_KEY)
    await store.settle(record, exact(10, 7), BY_KEY)
    await store.states(SUBJECT.tenant_id, LIMITS)


def _until_end(seen: Iterator[dict[str, str]]) -> list[str]:
    lines: list[str] = []
    for entry in seen:
        if entry["command"].lower().startswith("echo"):
            return lines
        is_greeting = entry["command"].lower().startswith(("hello", "client"))
        if entry["client_type"] != "lua" and not is_greeting:
            lines.append(entry["command"])
    raise AssertionError("the monitor ended")


def _keys_of(tenant: str, name: str) -> list[str]:
    return [
        keyspace.tenant_hash(tenant),
        keyspace.reservation_key(tenant, name),
        keyspace.grant_key(tenant, tenant, name),
    ]


def _everything(client: redis.Redis) -> dict[bytes, object]:
    keys = [bytes(key) for key in client.scan_iter()]
    return {key: client.dump(key) for key in keys if b"epoch" not in key}


async def _why_closed(server: Valkey) -> str:
    """Why no store opens on a server; empty if one does."""
    try:
        store = await RedisStore.open(server.url, PATIENT)
    except WeirError as error:
        return error.message
    await store.close()
    return ""
