"""The typed client against a whole gateway in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually, running_gateway
from weir_cli.commands.tls import make_certificates
from weir_client import (
    AsyncClient,
    AuthenticationError,
    InvalidRequest,
    JobState,
    LimitExceeded,
    NotFound,
    RetryPolicy,
    Unavailable,
)
from weir_core.errors import LimitExceeded as Refused
from weir_core.errors import Reason, Violation, WeirError

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAIT_S = 0.3


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keeping(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("client")
    async with running_gateway(folder, state_url=f"sqlite:///{folder}/state.sqlite") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(keeping: Gateway) -> AsyncIterator[Gateway]:
    keeping.reset()
    yield keeping
    await keeping.at_rest()


@asynccontextmanager
async def client_of(gateway: Gateway, **options: Any) -> AsyncIterator[AsyncClient]:
    target, key = gateway.app.grpc_address, gateway.key.secret
    async with AsyncClient(target, key, **options) as client:
        yield client


def _limit(retry_after_s: float | None, reason: Reason = Reason.TOKEN_LIMIT_EXCEEDED) -> Refused:
    violation = Violation(
        limit_id="tenant:acme/tpm",
        limit_type="tpm",
        resource="tokens",
        layer="tenant",
        limit=100,
        used=90,
        requested=20,
        reset_time_ms=1_900_000_000_000,
        knob="limit `tpm` of plan team",
    )
    return Refused(reason, "used up", [violation], retry_after_s=retry_after_s)


async def test_an_answer_streamed_and_whole(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Hel", "lo"])
    async with client_of(gateway) as client:
        async with client.generate(MODEL, prompt="x", max_new_tokens=9) as answer:
            text = "".join([part async for part in answer])
        collected = await client.generate(MODEL, prompt="x", max_new_tokens=9).collect()
        whole = await client.complete(MODEL, prompt="x", max_new_tokens=9)
        record = await client.get_request(whole.request_id)
    assert text == collected.text == whole.text == "Hello"
    assert answer.usage is not None
    assert answer.usage.total_tokens == whole.usage.total_tokens == 3
    assert record.request_id == whole.request_id


async def test_a_limit_is_told_whole_and_waited_for(gateway: Gateway) -> None:
    times: list[float] = []

    def refuse(_: Any) -> WeirError | None:
        times.append(asyncio.get_running_loop().time())
        return _limit(WAIT_S) if len(times) == 1 else None

    gateway.limiter.refuse = refuse
    async with client_of(gateway) as client:
        await client.complete(MODEL, prompt="x", max_new_tokens=1)
        assert times[1] - times[0] >= WAIT_S
        gateway.limiter.refuse = lambda _: _limit(3_600, Reason.BUDGET_EXHAUSTED)
        with pytest.raises(LimitExceeded) as caught:
            await client.complete(MODEL, prompt="x", max_new_tokens=1)
    error = caught.value
    assert (error.reason, error.futile) == ("BUDGET_EXHAUSTED", True)
    assert error.limit is not None
    assert (error.limit.limit_id, error.limit.limit, error.limit.used) == (
        "tenant:acme/tpm",
        100,
        90,
    )


async def test_refusals_have_their_class_and_field(gateway: Gateway) -> None:
    async with client_of(gateway) as client:
        with pytest.raises(InvalidRequest) as caught:
            await client.complete(MODEL, prompt="x", max_new_tokens=1, temperature=9.0)
        assert caught.value.field.endswith("temperature")
        with pytest.raises(NotFound):
            await client.complete("no-such-model", prompt="x", max_new_tokens=1)
        gateway.limiter.refuse = lambda _: WeirError(Reason.LIMITER_UNAVAILABLE, "away")
        with pytest.raises(Unavailable):
            await client.complete(MODEL, prompt="x", max_new_tokens=1)
    async with AsyncClient(gateway.app.grpc_address, "weir_dev_wrong") as stranger:
        with pytest.raises(AuthenticationError):
            await stranger.list_models()


async def test_an_answer_that_was_lost_is_replayed_and_charged_once(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["once"])
    async with client_of(gateway) as client:
        first = await client.complete(MODEL, prompt="x", max_new_tokens=4, idempotency_key="k-1")
        again = await client.complete(MODEL, prompt="x", max_new_tokens=4, idempotency_key="k-1")
    assert (first.replayed, again.replayed) == (False, True)
    assert again.text == first.text
    assert len(gateway.limiter.accounts) == 1


async def test_an_attempt_that_still_runs_is_waited_for(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["a", "b"], pause_after=1)
    options: Any = {"prompt": "x", "max_new_tokens": 4, "idempotency_key": "k-2"}
    async with client_of(gateway, retry=RetryPolicy(attempts=20, longest_delay_s=2)) as client:
        first = asyncio.create_task(client.complete(MODEL, **options))
        await eventually(lambda: gateway.worker.tokens == 1)
        again = asyncio.create_task(client.complete(MODEL, **options))
        await asyncio.sleep(0)
        gateway.worker.resume.set()
        assert (await first).text == (await again).text == "ab"
    assert len(gateway.limiter.accounts) == 1


async def test_a_stream_that_is_left_stops_its_work(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["a", "b", "c"], pause_after=2)
    async with client_of(gateway) as client:
        async with client.generate(MODEL, prompt="x", max_new_tokens=9) as answer:
            async for _ in answer:
                break
        await eventually(lambda: gateway.worker.aborts)


async def test_a_session_of_its_own(gateway: Gateway) -> None:
    async with client_of(gateway) as client:
        session = await client.sessions.create(MODEL, idle_ttl=timedelta(minutes=20))
        assert (await client.sessions.get(session.id)).idle_ttl == timedelta(minutes=20)
        await client.complete(MODEL, prompt="x", max_new_tokens=2, session_id=session.id)
        assert session.id in [one.id async for one in client.sessions.list()]
        await client.sessions.delete(session.id)
        with pytest.raises(NotFound):
            await client.sessions.get(session.id)
    assert gateway.worker.specs[0].private_scope == session.id


async def test_a_job_is_waited_for(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["do", "ne"])
    async with client_of(gateway) as client:
        job = await client.jobs.submit(MODEL, prompt="x", max_new_tokens=4)
        ended = await client.jobs.wait(job.id, timeout_s=30)
        listed = [one.id async for one in client.jobs.list(state=JobState.SUCCEEDED)]
    assert (ended.state, ended.text, ended.model) == (JobState.SUCCEEDED, "done", MODEL)
    assert ended.usage.completion_tokens == 2
    assert listed == [job.id]


async def test_a_job_is_watched_and_cancelled(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["never"], pause_after=0)
    states: list[JobState] = []
    async with client_of(gateway) as client:
        job = await client.jobs.submit(MODEL, prompt="x", max_new_tokens=4)
        async for seen in client.jobs.watch(job.id, timeout_s=30):
            states.append(seen.state)
            if seen.state is JobState.RUNNING:
                await client.jobs.cancel(job.id)
    assert states[-1] is JobState.CANCELLED


async def test_a_prefix_stands_before_prompts(gateway: Gateway) -> None:
    async with client_of(gateway) as client:
        kept = await client.prefixes.put("rules", text="Be brief. ", models=[MODEL], warm=False)
        assert (kept.name, kept.version, kept.models) == ("rules", 1, (MODEL,))
        assert (await client.prefixes.get("rules")).text == "Be brief. "
        alone = await client.complete(MODEL, prompt="x", max_new_tokens=1)
        behind = await client.complete(MODEL, prompt="x", max_new_tokens=1, prefix="rules")
        assert behind.usage.prompt_tokens == alone.usage.prompt_tokens + len("Be brief. ")
        (warmth,) = await client.prefixes.warm("rules")
        assert warmth.model == MODEL
        assert [p.name async for p in client.prefixes.list()] == ["rules"]
        await client.prefixes.delete("rules")
        with pytest.raises(NotFound):
            await client.prefixes.get("rules")


async def test_tls_to_an_authority_of_ones_own(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    trusted = grpc.ssl_channel_credentials((tmp_path / "ca.pem").read_bytes())
    async with running_gateway(tmp_path, tls=tmp_path) as gateway:
        async with client_of(gateway, credentials=trusted) as client:
            assert [model.name for model in await client.list_models()] == [MODEL]
        public = grpc.ssl_channel_credentials()
        once = RetryPolicy(attempts=1)
        async with client_of(gateway, credentials=public, retry=once, timeout_s=5) as client:
            with pytest.raises(Unavailable):
                await client.list_models()
