"""The directory in SQLite and in a real PostgreSQL."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.harness import eventually
from tests.gateway.sql_directory import Desk, of_file, open_desk, ordered
from tests.gateway.support import document_of
from tests.ratelimiter.postgres import Postgres
from weir.directory.v1.directory_pb2 import Tenant, User
from weir.gateway.v1.admin_service_pb2 import CreateKeyRequest
from weir_core.clock import ManualClock
from weir_core.database.url import parse_database_url
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_gateway.directory.file import DirectoryFileError
from weir_gateway.directory.sql.database import Database
from weir_gateway.directory.sql.records import Kind
from weir_gateway.keys import generate_key, hash_key, public_id

RICH: dict[str, Any] = document_of(generate_key()) | {
    "cluster": {"limits": [{"resource": "tokens", "rate": "1M/10s", "burst": 7}]},
    "pools": [
        {"name": "fast", "class": "interactive", "profiles": ["gpu"], "preemption": {}},
        {
            "name": "own",
            "isolation": "dedicated",
            "tenant": "acme",
            "shedding": {"curve": "power", "from": 0.25},
            "scaling": {"min_workers": 1, "max_workers": 3, "target_use": 0.7},
        },
    ],
}
RICH["models"][0] |= {
    "further_pools": ["fast", "own"],
    "sticky": "session",
    "price": {"input": 0.15, "output": "0.6"},
    "created": "2026-01-02T03:04:05Z",
    "parameters": {
        "temperature": 0,
        "alpha": 0.7,
        "top_p": 0.9,
        "profiles": {"gpu": {"max_batch_size": 64, "batch_wait_ms": 0}},
    },
}
RICH["tenants"][0] |= {
    "name": "Acmé",
    "limits": [
        {"resource": "cost", "limit": 12.5, "window": "month", "time_zone": "Europe/Berlin"},
        {"resource": "context_tokens", "limit": 64},
        {"resource": "tokens", "rate": "60k/min", "model": "tiny", "max_debt": 9},
        {"resource": "in_flight_tokens", "limit": 5, "shadow": True},
    ],
    "policy": {
        "weight": 3,
        "allowed_models": ["tiny"],
        "kv": {"max_tokens": 0, "share_private": False, "session_ttl_s": 600},
        "slo": {"ttft_ms": 300, "attainment": 0.95, "shed": False},
        "files": {"max_files": 7, "max_bytes": 1_000_000},
        "batch": {"max_enqueued_tokens": 5_000},
        "keep": {"max_responses": 3, "max_webhooks": 4, "max_event_streams": 5},
        "reserve_policy": "estimate",
        "extend_policy": "debt",
        "degradations": ["cheaper_sampling"],
        "degradation": {"min_new_tokens": 9, "max_wait_ms": 1_500, "truncate": "head"},
    },
    "parameters": {"*": {"max_new_tokens": 50}, "tiny": {"top_k": -1}},
}


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/directory.sqlite"
        return
    server: Postgres = request.getfixturevalue("postgres_server")
    made = await server.new_database()
    yield made
    server.give_back(made)


async def test_an_empty_database_takes_the_file_once_and_serves_the_same(url: str) -> None:
    async with open_desk(url, RICH) as desk:
        assert ordered(desk.snapshot) == ordered(of_file(RICH))
        events = await desk.source.events("", 0, 100)
        assert {event["action"] for event in events} == {"bootstrap"}
        assert {"tenant/acme", "user/acme/alice", "pool/own"} <= {one["object"] for one in events}
        version = desk.snapshot.version
    async with open_desk(url, document_of(generate_key())) as again:
        assert ordered(again.snapshot) == ordered(of_file(RICH))
        assert again.snapshot.version == version


async def test_two_gateways_start_on_one_empty_database(url: str) -> None:
    async with open_desk(url, RICH) as one, open_desk(url, RICH) as other:
        assert one.snapshot == other.snapshot
    (first, *_) = await _bootstraps(url)
    assert len(await _bootstraps(url)) == len({one["object"] for one in await _bootstraps(url)})
    assert first["actor"] == "tokenweir"


async def _bootstraps(url: str) -> list[dict[str, Any]]:
    async with open_desk(url) as desk:
        return await desk.source.events("", 0, 1_000)


async def test_any_history_of_changes_equals_the_file_that_says_the_same(url: str) -> None:
    choose = random.Random(url.partition(":")[0])
    async with open_desk(url) as desk, open_desk(url) as other:
        model: dict[str, Any] = {"plans": {}, "models": {}, "tenants": {}, "users": {}}
        for _ in range(25):
            await _step(choose.choice([desk, other]), model, choose)
        served = ordered(of_file(_padded(model)))
        for padding in [name for name in served["users"] if name.endswith("/somebody")]:
            del served["users"][padding]
        for view in (desk, other):
            view.source.reload()
        await eventually(lambda: desk.publisher.version == other.publisher.version)
        assert ordered(desk.snapshot) == ordered(other.snapshot)
        assert ordered(desk.snapshot) == served
    async with open_desk(url) as fresh:
        assert ordered(fresh.snapshot) == served


def _document(model: dict[str, Any]) -> dict[str, Any]:
    tenants = [
        tenant | {"users": [user for (of, _), user in model["users"].items() if of == name]}
        for name, tenant in model["tenants"].items()
    ]
    plans, models = list(model["plans"].values()), list(model["models"].values())
    return {"plans": plans, "models": models, "tenants": tenants}


async def _step(desk: Desk, model: dict[str, Any], choose: random.Random) -> None:
    """One put or delete; what breaks a rule must be refused and change nothing."""
    wanted = {kind: dict(entries) for kind, entries in model.items()}
    kind, name, tenant = (
        choose.choice(["plan", "model", "tenant", "user"]),
        choose.choice("abc"),
        choose.choice("abc"),
    )
    key: Any = (tenant, name) if kind == "user" else name
    entries = wanted[f"{kind}s"]
    removed = choose.random() < 0.3
    if removed:
        entries.pop(key, None)
        if kind == "tenant":
            wanted["users"] = {one: user for one, user in wanted["users"].items() if one[0] != name}
    else:
        entries[key] = _entry(kind, name, choose)
    try:
        served = of_file(_padded(wanted))
        valid = kind != "user" or tenant in wanted["tenants"]
    except DirectoryFileError:
        served, valid = None, False
    exists = key in model[f"{kind}s"]
    told = "/".join(key) if kind == "user" else key
    try:
        if removed:
            await desk.objects.delete("test", Kind(kind), told)
        else:
            message = _message(kind, told, served, wanted, name, tenant)
            await desk.objects.put("test", Kind(kind), message, 0)
    except WeirError:
        done = False
    else:
        done = True
    assert done is (valid and (exists or not removed))
    if done:
        model.clear()
        model.update(wanted)


def _padded(model: dict[str, Any]) -> dict[str, Any]:
    """The file wants a user of every tenant: only the check of the rules gets one."""
    document = _document(model)
    for tenant in document["tenants"]:
        tenant["users"] = tenant["users"] or [{"id": "somebody"}]
    return document


def _message(
    kind: str, told: str, served: Any, wanted: dict[str, Any], name: str, tenant: str
) -> Any:
    if served is None:
        return Tenant(id=name, plan_id=wanted["tenants"].get(name, {}).get("plan", "gone"))
    found = ordered(served)[f"{kind}s"]
    return found[told] if told in found else _user_of_nobody(tenant, name)


def _user_of_nobody(tenant: str, name: str) -> Any:
    return User(id=name, tenant_id=tenant)


def _entry(kind: str, name: str, choose: random.Random) -> dict[str, Any]:
    limits = [{"resource": "tokens", "rate": f"{choose.randint(1, 9)}k/min"}]
    if kind == "plan":
        return {"id": name, "limits": limits, "policy": {"weight": choose.randint(1, 9)}}
    if kind == "model":
        folder = f"/m/{choose.randint(1, 9)}"
        versions = [{"version": "v1", "folder": folder}]
        return {"name": name, "versions": versions, "max_context": choose.randint(1, 99)}
    if kind == "user":
        return {"id": name, "limits": limits}
    plan = choose.choice(["free", "a", "b"])
    return {"id": name, "plan": plan, "suspended": choose.random() < 0.5, "limits": limits}


async def test_a_lost_update_is_refused_and_says_the_present_version(url: str) -> None:
    async with open_desk(url, RICH) as desk, open_desk(url, RICH) as other:
        read = desk.objects.get(Kind.TENANT, "acme")
        renamed = Tenant()
        renamed.CopyFrom(read.message)
        renamed.name = "first"
        first = await other.objects.put("a", Kind.TENANT, renamed, read.version)
        renamed.name = "second"
        with pytest.raises(WeirError) as caught:
            await desk.objects.put("b", Kind.TENANT, renamed, read.version)
        assert caught.value.reason is Reason.VERSION_CONFLICT
        assert caught.value.metadata["present_version"] == str(first.version)
        await eventually(lambda: desk.objects.get(Kind.TENANT, "acme").message.name == "first")
        # A change of something else is no conflict.
        plan = other.objects.get(Kind.PLAN, "team").message
        assert (await other.objects.put("c", Kind.PLAN, plan, read.version)).version


async def test_the_id_of_a_removed_tenant_is_never_taken_again(url: str) -> None:
    """Its files, answers and bills are still under it."""
    async with open_desk(url, RICH) as desk, open_desk(url, RICH) as other:
        message = Tenant(id="gone", plan_id="team")
        await desk.objects.put("test", Kind.TENANT, message, 0)
        await desk.objects.delete("test", Kind.TENANT, "gone")
        with pytest.raises(
            WeirError, match="'gone' was that of a tenant that was removed"
        ) as caught:
            await other.objects.put("test", Kind.TENANT, message, 0)
        assert caught.value.reason is Reason.STATE_CONFLICT
        assert caught.value.field == "tenant.id"


async def test_what_cannot_be_kept_or_breaks_a_rule_names_field_value_and_bound(url: str) -> None:
    async with open_desk(url, RICH) as desk:
        before = desk.snapshot.version
        cases: list[tuple[dict[str, Any], str]] = [
            ({"policy": {"weight": -1}}, "tenant.policy.weight is -1: .*greater than or equal"),
            ({"plan_id": "gone"}, "there is no plan 'gone'"),
            ({"limits": [{"resource": 5, "capacity": 4, "refill": 3}]}, "tenant.limits"),
            ({"limits": [{"resource": 5, "capacity": -4}]}, r"tenant.limits\[0\].limit is -4"),
            ({"limits": [{"resource": 99, "capacity": 4}]}, "tenant: .*99"),
            ({"policy": {"kv": {"session_ttl_ms": 600_500}}}, "policy.kv.session_ttl_ms cannot be"),
        ]
        for changes, told in cases:
            message = Tenant(**({"id": "acme", "plan_id": "team"} | changes))
            with pytest.raises(WeirError, match=told) as caught:
                await desk.objects.put("test", Kind.TENANT, message, 0)
            assert caught.value.reason is Reason.INVALID_FIELD
        with pytest.raises(WeirError, match=r"plan 'team' cannot be removed: .*tenant 'acme'"):
            await desk.objects.delete("test", Kind.PLAN, "team")
        assert desk.snapshot.version == before
        assert len(await desk.source.events("", 0, 1_000)) == len(await _bootstraps(url))


async def test_a_rotated_key_has_two_secrets_until_the_overlap_ends(url: str) -> None:
    clock = ManualClock()
    async with open_desk(url, RICH, clock) as desk, open_desk(url, RICH, clock) as other:
        made = await desk.keys.create("test", CreateKeyRequest(tenant_id="acme", user_id="alice"))
        assert not made.key.hashes
        turned = await desk.keys.rotate("test", made.key.id, timedelta(seconds=60))
        assert public_id(turned.secret) == public_id(made.secret) == made.key.id
        old, new = hash_key(made.secret), hash_key(turned.secret)

        def works(digest: bytes) -> list[bool]:
            views = (desk, other)
            return [view.publisher.required.key_by_hash(digest) is not None for view in views]

        await eventually(lambda: works(old) == works(new) == [True, True])
        clock.advance_us(60_000_000)
        await eventually(lambda: works(old) == [False, False])
        assert works(new) == [True, True]
        actions = [one["action"] for one in await desk.source.events("acme", 0, 3)]
        assert actions == ["end_overlap", "rotate", "create"]
        with pytest.raises(WeirError, match="overlap is '31 days"):
            await desk.keys.rotate("test", made.key.id, timedelta(days=31))


async def test_a_key_that_has_expired_gets_no_secret_that_would_open_nothing(url: str) -> None:
    clock = ManualClock()
    async with open_desk(url, RICH, clock) as desk:
        request = CreateKeyRequest(tenant_id="acme", user_id="alice")
        request.expire_time.FromMicroseconds(clock.now_us() + 60_000_000)
        made = await desk.keys.create("test", request)
        clock.advance_us(59_000_000)
        await desk.keys.rotate("test", made.key.id, timedelta())
        clock.advance_us(1_000_000)
        with pytest.raises(WeirError, match="has not expired; make a new one instead"):
            await desk.keys.rotate("test", made.key.id, timedelta())


async def test_a_revoked_key_never_comes_back(url: str) -> None:
    async with open_desk(url, RICH) as desk, open_desk(url, RICH) as stale:
        made = await desk.keys.create("test", CreateKeyRequest(tenant_id="acme", user_id="alice"))
        await eventually(lambda: stale.publisher.required.key(made.key.id) is not None)
        tenant = stale.objects.get(Kind.TENANT, "acme").message
        await desk.keys.revoke("test", made.key.id)
        # A writer that has not seen it yet, on the other gateway, at the same moment.
        changes = [stale.objects.put("test", Kind.TENANT, tenant, 0) for _ in range(5)]
        await asyncio.gather(*changes)
        for view in (desk, stale):
            await eventually(partial(_is_revoked, view, made.key.id))
        with pytest.raises(WeirError, match="a key that is not revoked"):
            await stale.keys.rotate("test", made.key.id, timedelta())
        await desk.objects.delete("test", Kind.USER, "acme/alice")
        await eventually(lambda: stale.publisher.required.key(made.key.id) is None)
        alice = of_file(RICH).users[0]
        await stale.objects.put("test", Kind.USER, alice, 0)
        assert stale.publisher.required.key(made.key.id) is None


def _is_revoked(desk: Desk, key_id: str) -> bool:
    key = desk.publisher.required.key(key_id)
    return key is not None and key.revoked


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_postgresql_tells_the_others_without_a_poll(url: str) -> None:
    async with (
        open_desk(url, RICH) as desk,
        open_desk(url, poll_s=3_600) as other,
    ):
        key_id = RICH["tenants"][0]["keys"][0]["id"]
        # The listener is there once the look that it begins with has been.
        await eventually(lambda: other.source._news.listening)
        await desk.keys.revoke("admin", key_id)
        await eventually(lambda: other.publisher.version == desk.publisher.version)
        revoked = other.publisher.required.key(key_id)
        assert revoked is not None
        assert revoked.revoked


async def test_no_fault_ends_the_following(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk(url, RICH) as desk, open_desk(url) as other:
        faults = [KeyError("a fault of ours")]
        refresh = other.source._refresh

        async def faulty() -> None:
            if faults:
                raise faults.pop()
            await refresh()

        monkeypatch.setattr(other.source, "_refresh", faulty)
        await eventually(lambda: not faults)
        key_id = RICH["tenants"][0]["keys"][0]["id"]
        await desk.keys.revoke("admin", key_id)
        await eventually(lambda: _is_revoked(other, key_id))


async def test_a_follower_that_was_ahead_is_sent_nothing_older(url: str) -> None:
    async with open_desk(url, RICH) as desk:
        ahead = desk.snapshot.version + 1
        assert not await desk.publisher.wait_change(ahead, 0.05)
        assert await desk.publisher.wait_change(ahead - 2, 0.05)


async def test_while_the_database_is_away_the_last_good_version_stays(
    postgres_server: Postgres,
) -> None:
    url = await postgres_server.new_database()
    async with open_desk(url, RICH) as desk:
        before = desk.snapshot
        postgres_server.kill()
        try:
            with pytest.raises(WeirError, match="see database_url") as caught:
                await desk.keys.revoke("test", "gone")
            assert caught.value.reason is Reason.DIRECTORY_UNAVAILABLE
            assert desk.snapshot == before
        finally:
            postgres_server.start()
        made = await desk.keys.create("test", CreateKeyRequest(tenant_id="acme", user_id="alice"))
        assert desk.publisher.required.key(made.key.id) is not None


async def test_a_database_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/directory.sqlite"
    async with open_desk(url):
        pass
    database = Database(parse_database_url(url, "url", "a test"))
    async with database.writing() as (connection, _):
        await connection.exec_driver_sql("UPDATE directory_alembic_version SET version_num='9999'")
    await database.close()
    with pytest.raises(StartupError, match="of another release"):
        async with open_desk(url):
            pass


async def test_a_file_that_is_moved_takes_no_change_with_it(tmp_path: Path) -> None:
    file = tmp_path / "directory.sqlite"
    async with open_desk(f"sqlite:///{file}", RICH) as desk:
        before = desk.snapshot
        moved = file.rename(tmp_path / "moved")
        with pytest.raises(WeirError, match="see database_url") as caught:
            await desk.objects.delete("test", Kind.USER, "acme/alice")
        assert caught.value.reason is Reason.DIRECTORY_UNAVAILABLE
        moved.rename(file)
        assert desk.snapshot == before
        await desk.objects.delete("test", Kind.USER, "acme/alice")
        assert not desk.snapshot.users
