"""What a worker tells the scheduler of the prefixes that it holds, and gives up for sessions."""

import grpc
import pytest

from tests.worker.server.support import (
    RunningWorker,
    ScriptedScheduler,
    eventually,
    open_gateway,
    spec,
)
from tests.worker.server.test_registration import scheduled_worker
from weir.worker.v1.worker_service_pb2 import (
    GetLoadRequest,
    KvPolicy,
    ReleaseSessionRequest,
)
from weir_core.prefix_hash import PrefixNamespace, prefix_hashes
from weir_worker.engine.events import StepOutput
from weir_worker.engine.load import Load
from weir_worker.prefix_report import MOST_HASHES, PrefixReport

PROMPT = [65 + index % 26 for index in range(200)]


def told(scheduler: ScriptedScheduler) -> set[bytes]:
    """What the reports come to, each taken as the scheduler takes it."""
    known: set[bytes] = set()
    for report in scheduler.reports:
        known |= set(report.prefix_blocks_added)
        known -= set(report.prefix_blocks_removed)
    return known


def names_of(worker: RunningWorker, tenant: str, length: int) -> list[bytes]:
    """The names that a gateway gives to a declared prefix of so many tokens."""
    fingerprint = worker.worker.engine.ready.tokenizer_fingerprint
    namespace = PrefixNamespace(tenant, "test-model", fingerprint)
    return prefix_hashes(namespace.root(), PROMPT[:length], 64)


async def test_declared_prefixes_are_told_by_the_names_that_gateways_use() -> None:
    async with (
        scheduled_worker(model_version="3", num_blocks=40) as (scheduler, worker),
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec(prompt=PROMPT, tenant_prefix_tokens=140))
        await gateway.ended_answer(key)
        names = names_of(worker, "acme", 140)
        assert len(names) == 2
        await eventually(lambda: told(scheduler) == set(names))
        await scheduler.stop()
        await scheduler.start(int(scheduler.address.rpartition(":")[2]))
        before = len(scheduler.reports)
        await eventually(lambda: len(scheduler.reports) > before)
        assert set(scheduler.reports[before].prefix_blocks_added) == set(names), "all of it again"
        # 40 blocks of 16 tokens: another tenant's prompt takes them.
        (key,) = await gateway.start(spec(prompt=630, max_new_tokens=2, tenant="globex"))
        await gateway.ended_answer(key)
        await eventually(lambda: not told(scheduler) & set(names))


async def test_sessions_are_pinned_told_by_tenant_and_released_on_demand() -> None:
    async with (
        scheduled_worker() as (scheduler, worker),
        open_gateway(worker) as gateway,
    ):
        keep = KvPolicy(session_ttl_ms=600_000)
        wanted = spec(prompt=PROMPT, private_scope="ses_1", kv=keep)
        (key,) = await gateway.start(wanted)
        await gateway.ended_answer(key)
        assert len(told(scheduler)) == 0 or len(told(scheduler)) == 3
        await eventually(lambda: len(told(scheduler)) == 3)
        await eventually(lambda: worker.metric("weir_worker_kv_pinned_blocks") == 13)
        load = (await worker.stub.GetLoad(GetLoadRequest())).load
        assert (load.held_kv_blocks, load.pinned_kv_blocks) == (13, 13)
        await eventually(lambda: worker.worker.load.read().stranded_kv_tokens == 13 * 16 - 207)
        for tenant in ("globex", "acme", "acme"):
            await worker.stub.ReleaseSession(
                ReleaseSessionRequest(tenant_id=tenant, session_id="ses_1")
            )
            if tenant == "globex":
                assert worker.metric("weir_worker_kv_pinned_blocks") == 13
        await worker.kv_is_free()
        await eventually(lambda: worker.worker.load.read(tenants=True).tenants)
        (tenant_kv,) = worker.worker.load.read(tenants=True).tenants
        assert tenant_kv.tenant_id == "acme"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"session_id": "s"}, "tenant_id"),
        ({"tenant_id": "acme"}, "session_id"),
        ({"tenant_id": "acme", "session_id": "s" * 129}, "session_id"),
    ],
)
async def test_a_release_that_names_nothing_is_refused(fields: dict[str, str], named: str) -> None:
    async with scheduled_worker() as (_, worker):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await worker.stub.ReleaseSession(ReleaseSessionRequest(**fields))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert named in (caught.value.details() or "")


def test_reports_are_net_changes_and_bounded() -> None:
    report = PrefixReport()
    many = [index.to_bytes(32, "big") for index in range(MOST_HASHES + 10)]

    def step(added: list[bytes], removed: list[bytes]) -> None:
        report.on_output(StepOutput([], [], [], [], Load(), added, removed))

    step(many, [])
    assert [len(part) for part in report.take()] == [MOST_HASHES, 0]
    step([], many[-3:])
    assert [len(part) for part in report.take()] == [7, 0], "never told, never taken back"
    step([], many[:2])
    step(many[:1], [])
    assert report.take() == ([], [many[1]])
    report.tell_again()
    first, second = report.take()[0], report.take()[0]
    assert set(first) | set(second) == set(many) - {many[1], *many[-3:]}
    assert not report.pending
