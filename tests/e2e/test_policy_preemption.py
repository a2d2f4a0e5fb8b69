"""A more urgent request takes the place of one that has not begun to answer, end to end."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import grpc
import httpx2
import pytest
import pytest_asyncio
import yaml

from tests.e2e.counted import COUNTED, books_closed
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.wait import until
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import RequestClass
from weir.common.v1.usage_pb2 import USAGE_QUALITY_EXACT
from weir.gateway.v1.inference_service_pb2 import (
    GenerateRequest,
    ListModelsRequest,
    TokenInput,
)

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

POOL = {"name": "taking", "preemption": {"max_overtake_ratio": 1.0, "max_preemptions": 1}}
ONE_AT_A_TIME = {"pool": "taking", "parameters": {"max_concurrent_requests": 1}}
# 24 steps of 120 ms to the first token of 1,500: time to be pre-empted, on busy cores too.
SLOW = {"WEIR_WORKER__NULL_STEP_US": "120000", "WEIR_WORKER__MAX_STEP_TOKENS": "64"}
LONG, SHORT = 1_500, 40


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """One worker with one place, in a pool that pre-empts."""
    names = ("offline", "urgent", "begun", "late")
    async with deployed(
        tmp_path_factory.mktemp("taking") / "state",
        None,
        tenants={name: {"plan": "counted"} for name in names},
        plans=COUNTED,
        pools=[POOL],
        model=ONE_AT_A_TIME,
        settings=SLOW,
    ) as deployment:
        yield deployment


async def test_the_urgent_goes_first_and_the_victim_loses_nothing_but_time(
    stack: Deployment,
) -> None:
    batch = RequestClass.REQUEST_CLASS_BATCH
    victim = asyncio.create_task(_answer(stack, "offline", LONG, batch))

    async def busy() -> bool:
        if victim.done():
            raise AssertionError(f"it has ended already: {victim.result()}")
        return _busy(await stack.workers())

    await until(busy, bool, "the dispatch of the offline request")
    urgent = await _answer(stack, "urgent", SHORT)
    assert not victim.done()
    moved = await asyncio.wait_for(victim, 60)
    rows = await books_closed(stack, ["offline", "urgent"])
    told = await _metrics(stack)
    assert (urgent.attempts, moved.attempts) == (1, 2)
    assert urgent.first_token_time.ToMicroseconds() < moved.first_token_time.ToMicroseconds()
    assert moved.usage_quality == USAGE_QUALITY_EXACT
    # Its reservation held, and what was computed in vain is charged to nobody.
    charged = {(row.prompt, row.completion) for row in rows if row.kind == "charge"}
    assert charged == {(LONG, 4), (SHORT, 4)}
    assert 'weir_scheduler_requeues_total{reason="PREEMPTED"} 1.0' in told
    assert 'weir_scheduler_policy_preemptions_total{outcome="given"} 1.0' in told


async def test_one_that_has_begun_to_answer_is_left_alone(stack: Deployment) -> None:
    begun = asyncio.Event()
    batch = RequestClass.REQUEST_CLASS_BATCH
    first = asyncio.create_task(_answer(stack, "begun", SHORT, batch, 40, begun))
    await asyncio.wait_for(begun.wait(), 60)
    urgent = await _answer(stack, "late", SHORT)
    earlier = await first
    assert (earlier.attempts, urgent.attempts) == (1, 1)
    assert earlier.usage.completion_tokens == 40
    assert earlier.end_time.ToMicroseconds() < urgent.first_token_time.ToMicroseconds()


async def test_a_canary_that_is_not_up_hands_its_requests_over_and_the_answer_says_so(
    stack: Deployment,
) -> None:
    """All but one in a thousand are drawn for version 2; the worker is of version 1."""
    file = stack.state.parent / f"{stack.state.name}-directory.yaml"
    document = yaml.safe_load(file.read_text())
    (first,) = document["models"][0]["versions"]
    versions = [first | {"weight": 1}, first | {"version": "2", "weight": 1_000}]
    document["models"][0]["versions"] = versions
    file.write_text(yaml.safe_dump(document))
    async with stack.inference() as stub:

        async def served() -> list[str]:
            answer = await stub.ListModels(ListModelsRequest(), metadata=stack.metadata("late"))
            return list(answer.models[0].versions)

        await until(served, lambda names: names == ["1", "2"], "the canary in the directory")
    record = await _answer(stack, "late", SHORT)
    assert (record.subject.model, record.subject.model_version) == (stack.model, "1")
    assert record.usage.completion_tokens == 4
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _answer(stack, "late", SHORT, version="2", timeout_s=2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED, "named, it is waited for"


def _busy(views: Sequence[object]) -> bool:
    return any(view.running_attempts for view in views)  # type: ignore[attr-defined]


async def _answer(
    stack: Deployment,
    tenant: str,
    prompt: int,
    request_class: "RequestClass.ValueType" = RequestClass.REQUEST_CLASS_INTERACTIVE,
    output: int = 4,
    begun: asyncio.Event | None = None,
    version: str = "",
    timeout_s: float = 90,
) -> LifecycleRecord:
    request = GenerateRequest(
        model=stack.model,
        model_version=version,
        token_input=TokenInput(token_ids=[10 + n % 200 for n in range(prompt)]),
        max_new_tokens=output,
        sampling=SamplingParams(temperature=0.0, ignore_eos=True),
        stream=True,
    )
    setattr(request, "class", request_class)
    record = LifecycleRecord()
    async with stack.inference() as stub:
        call = stub.Generate(request, metadata=stack.metadata(tenant), timeout=timeout_s)
        async for response in call:
            if begun is not None and response.delta.token_ids:
                begun.set()
            record = response.finished.lifecycle
    return record


async def _metrics(stack: Deployment) -> str:
    async with httpx2.AsyncClient() as client:
        address = stack.stack.welcome.metrics["scheduler"]
        answer = await client.get(f"http://{address}/metrics", timeout=10)
    return str(answer.text)
