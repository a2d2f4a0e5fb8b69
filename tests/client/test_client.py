"""The typed client against a real grpc.aio server that plays the gateway's door."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.common.v1.refusal_pb2 import Refusal, Violation
from weir.common.v1.sampling_pb2 import FINISH_REASON_LENGTH, ChoiceEnd
from weir.common.v1.subject_pb2 import LATENCY_SLA_LOW, REQUEST_CLASS_BATCH
from weir.common.v1.usage_pb2 import Usage
from weir.gateway.v1 import inference_service_pb2 as wire
from weir.gateway.v1.inference_service_pb2_grpc import (
    InferenceServiceServicer,
    add_InferenceServiceServicer_to_server,
)
from weir_client import (
    AsyncClient,
    AuthenticationError,
    CallCancelled,
    DeadlineExceeded,
    InvalidRequest,
    LimitExceeded,
    NotBuiltYet,
    RetryPolicy,
    ServerError,
    Unavailable,
    WeirClientError,
)

KEY = "weir_test_key"
Context = grpc.aio.ServicerContext[wire.GenerateRequest, wire.GenerateResponse]
Failure = Callable[[Context], Awaitable[None]]


def _delta(text: str, choice: int, request: wire.GenerateRequest) -> wire.Delta:
    """Answers beyond the first are in capitals."""
    delta = wire.Delta(text=text.upper() if choice else text, choice=choice)
    if request.sampling.HasField("logprobs"):
        delta.logprobs.add(token=b"t", logprob=-1)
    return delta


class Door(InferenceServiceServicer):
    """Answers three pieces; fails first as often as it is told to."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.calls = 0
        self.last: wire.GenerateRequest | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.ended = asyncio.Event()
        self.with_end = True
        self.answers = 1
        self.keys: list[str] = []

    async def Generate(  # noqa: N802
        self, request: wire.GenerateRequest, context: Context
    ) -> AsyncIterator[wire.GenerateResponse]:
        self.calls += 1
        self.last = request
        self.keys.append(request.idempotency_key)
        await self._authenticate(context)
        if self.failures:
            await self.failures.pop(0)(context)
        try:
            yield wire.GenerateResponse(
                accepted=wire.Accepted(request_id="req_1", model="m", prompt_tokens=2)
            )
            for text in ("Hello", "", ", world"):
                for choice in range(self.answers):
                    yield wire.GenerateResponse(delta=_delta(text, choice, request))
            await self.hold.wait()
            if self.with_end:
                usage = Usage(prompt_tokens=2, completion_tokens=3, total_tokens=5)
                end = wire.Finished(finish_reason=FINISH_REASON_LENGTH, usage=usage)
                if self.answers > 1:
                    ends = [ChoiceEnd(finish_reason=FINISH_REASON_LENGTH)] * self.answers
                    end.choices.extend(ends)
                yield wire.GenerateResponse(finished=end)
        finally:
            self.ended.set()

    async def ListModels(  # noqa: N802
        self, request: wire.ListModelsRequest, context: Context
    ) -> wire.ListModelsResponse:
        self.calls += 1
        await self._authenticate(context)
        if self.failures:
            await self.failures.pop(0)(context)
        return wire.ListModelsResponse(models=[wire.ModelInfo(name="m")])

    async def Tokenize(  # noqa: N802
        self, request: wire.TokenizeRequest, context: Context
    ) -> wire.TokenizeResponse:
        text = request.prompt or request.chat.messages[0].content
        return wire.TokenizeResponse(token_ids=[len(word) for word in text.split()])

    async def Embed(  # noqa: N802
        self, request: wire.EmbedRequest, context: Context
    ) -> wire.EmbedResponse:
        vectors = [wire.Embedding(values=[len(one.text), 0]) for one in request.inputs]
        return wire.EmbedResponse(model="m", embeddings=vectors, usage=Usage(prompt_tokens=4))

    async def GetRequest(  # noqa: N802
        self, request: wire.GetRequestRequest, context: Context
    ) -> wire.GetRequestResponse:
        record = LifecycleRecord(request_id=request.request_id)
        return wire.GetRequestResponse(lifecycle=record)

    @staticmethod
    async def _authenticate(context: Context) -> None:
        if ("authorization", f"Bearer {KEY}") not in (context.invocation_metadata() or ()):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no key")


@pytest.fixture
async def door() -> Door:
    return Door()


@pytest.fixture
async def target(door: Door) -> AsyncIterator[str]:
    server = grpc.aio.server()
    add_InferenceServiceServicer_to_server(door, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def client(target: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(target, KEY) as opened:
        yield opened


def failure(
    code: grpc.StatusCode,
    reason: str = "",
    *,
    retry_s: float | None = None,
    limit: str = "",
    pushback_ms: int | None = None,
) -> Failure:
    status = status_pb2.Status(message="as told")
    info = error_details_pb2.ErrorInfo(reason=reason, metadata={"request_id": "req_9"})
    status.details.add().Pack(info)
    if retry_s is not None:
        delay = Duration()
        delay.FromMilliseconds(int(retry_s * 1000))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    if limit:
        status.details.add().Pack(Refusal(violations=[Violation(limit_id=limit)]))

    async def fail(context: Context) -> None:
        details: tuple[tuple[str, str | bytes], ...]
        details = (("grpc-status-details-bin", status.SerializeToString()),)
        if pushback_ms is not None:
            details = (*details, ("grpc-retry-pushback-ms", str(pushback_ms)))
        await context.abort(code, "as told", details)

    return fail


async def test_streams_text_and_keeps_the_end(client: AsyncClient) -> None:
    async with client.generate("m", prompt="x", max_new_tokens=3) as answer:
        pieces = [text async for text in answer]
    assert pieces == ["Hello", ", world"]
    assert answer.request_id == "req_1"
    assert answer.finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 5


async def test_complete_returns_the_whole_answer(client: AsyncClient, door: Door) -> None:
    answer = await client.complete("m", prompt="x", max_new_tokens=3)
    assert (answer.text, answer.finish_reason, answer.model) == ("Hello, world", "length", "m")
    assert door.last is not None
    assert door.last.stream is False


async def test_the_other_calls(client: AsyncClient) -> None:
    assert [model.name for model in await client.list_models()] == ["m"]
    assert await client.tokenize("m", prompt="one three") == [3, 5]
    assert await client.tokenize("m", messages=[{"role": "user", "content": "a"}]) == [1]
    assert (await client.get_request("req_7")).request_id == "req_7"
    embedded = await client.embed("m", ["a", "bcd"])
    assert (embedded.vectors, embedded.usage.prompt_tokens) == (((1, 0), (3, 0)), 4)


async def test_options_reach_the_server(client: AsyncClient, door: Door) -> None:
    await client.complete(
        "m",
        messages=[{"role": "user", "content": "hi"}, wire.ChatMessage(role="assistant")],
        max_new_tokens=7,
        temperature=0.0,
        top_k=5,
        seed=9,
        stop=["END"],
        priority=3,
        latency_sla="low",
        request_class="batch",
        tools_json=["{}"],
    )
    sent = door.last
    assert sent is not None
    assert [turn.role for turn in sent.chat.messages] == ["user", "assistant"]
    assert list(sent.chat.tools_json) == ["{}"]
    assert sent.sampling.HasField("temperature")
    assert not sent.sampling.HasField("top_p")
    assert (sent.sampling.seed, list(sent.sampling.stop)) == (9, ["END"])
    assert (sent.max_new_tokens, sent.priority) == (7, 3)
    assert (sent.latency_sla, getattr(sent, "class")) == (LATENCY_SLA_LOW, REQUEST_CLASS_BATCH)


@pytest.mark.parametrize("inputs", [{}, {"prompt": "x", "messages": []}])
def test_exactly_one_input(inputs: dict[str, object]) -> None:
    from weir_client.request import build_request

    arguments = {"messages": None, "prompt": None, **inputs}
    with pytest.raises(ValueError, match="exactly one"):
        build_request("m", max_new_tokens=1, stream=True, options={}, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, InvalidRequest),
        (grpc.StatusCode.INTERNAL, ServerError),
        (grpc.StatusCode.DATA_LOSS, ServerError),
        (grpc.StatusCode.UNIMPLEMENTED, NotBuiltYet),
    ],
)
async def test_statuses_become_types_and_are_not_retried(
    client: AsyncClient, door: Door, code: grpc.StatusCode, kind: type[WeirClientError]
) -> None:
    door.failures = [failure(code, "SOME_REASON")]
    with pytest.raises(kind) as caught:
        await client.complete("m", prompt="x", max_new_tokens=3)
    assert type(caught.value) is kind
    assert (caught.value.reason, caught.value.request_id) == ("SOME_REASON", "req_9")
    assert door.calls == 1


async def test_a_wrong_key_is_named_without_the_key(target: str) -> None:
    async with AsyncClient(target, "wrong") as client:
        with pytest.raises(AuthenticationError) as caught:
            await client.list_models()
    assert "wrong" not in str(caught.value)


async def test_a_limit_is_retried_after_the_time_it_named(client: AsyncClient, door: Door) -> None:
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    door.failures = [failure(code, "TOKEN_LIMIT_EXCEEDED", retry_s=0.2, limit="tenant:a/tpm")]
    began = asyncio.get_running_loop().time()
    answer = await client.complete("m", prompt="x", max_new_tokens=3)
    assert answer.text == "Hello, world"
    assert door.calls == 2
    assert asyncio.get_running_loop().time() - began >= 0.2


@pytest.mark.parametrize("retry_s", [None, 60.0])
async def test_a_limit_without_a_near_time_is_the_callers(
    client: AsyncClient, door: Door, retry_s: float | None
) -> None:
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    door.failures = [failure(code, "BUDGET_EXHAUSTED", retry_s=retry_s, limit="tenant:a/day")]
    with pytest.raises(LimitExceeded) as caught:
        await client.complete("m", prompt="x", max_new_tokens=3)
    assert caught.value.retry_after_s == retry_s
    assert [violation.limit_id for violation in caught.value.violations] == ["tenant:a/day"]
    assert caught.value.limit is not None
    assert caught.value.limit.limit_id == "tenant:a/day"
    assert door.calls == 1


async def test_unavailable_is_tried_thrice(client: AsyncClient, door: Door) -> None:
    door.failures = [failure(grpc.StatusCode.UNAVAILABLE, retry_s=0.01) for _ in range(9)]
    with pytest.raises(Unavailable):
        await client.list_models()
    assert door.calls == 3


async def test_a_push_back_is_obeyed(client: AsyncClient, door: Door) -> None:
    code = grpc.StatusCode.UNAVAILABLE
    door.failures = [failure(code, pushback_ms=200), failure(code, pushback_ms=-1)]
    began = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable) as caught:
        await client.list_models()
    assert asyncio.get_running_loop().time() - began >= 0.2
    assert caught.value.futile
    assert door.calls == 2


async def test_retries_end_with_the_deadline(target: str, door: Door) -> None:
    door.failures = [failure(grpc.StatusCode.UNAVAILABLE, retry_s=0.8) for _ in range(99)]
    policy = RetryPolicy(attempts=99)
    async with AsyncClient(target, KEY, retry=policy, timeout_s=2) as client:
        with pytest.raises(Unavailable):
            await client.list_models()
    assert 1 < door.calls <= 3


async def test_all_attempts_of_a_whole_answer_have_one_key(client: AsyncClient, door: Door) -> None:
    door.failures = [failure(grpc.StatusCode.UNAVAILABLE, retry_s=0.01)]
    await client.complete("m", prompt="x", max_new_tokens=3)
    await client.complete("m", prompt="x", max_new_tokens=3)
    first, again, other = door.keys
    assert first
    assert first == again != other


async def test_a_key_of_the_callers_stays(client: AsyncClient, door: Door) -> None:
    await client.complete("m", prompt="x", max_new_tokens=3, idempotency_key="mine")
    door.failures = [failure(grpc.StatusCode.UNIMPLEMENTED, "STATE_OFF")]
    with pytest.raises(NotBuiltYet):
        await client.complete("m", prompt="x", max_new_tokens=3, idempotency_key="mine")
    assert door.keys == ["mine", "mine"]


async def test_a_server_that_keeps_no_keys_gets_none(client: AsyncClient, door: Door) -> None:
    door.failures = [failure(grpc.StatusCode.UNIMPLEMENTED, "STATE_OFF")]
    await client.complete("m", prompt="x", max_new_tokens=3)
    await client.complete("m", prompt="x", max_new_tokens=3)
    assert [bool(key) for key in door.keys] == [True, False, False]


async def test_an_outage_of_the_keys_is_none_of_the_answers(
    client: AsyncClient, door: Door
) -> None:
    door.failures = [failure(grpc.StatusCode.UNAVAILABLE, "STATE_UNAVAILABLE", retry_s=60)]
    await client.complete("m", prompt="x", max_new_tokens=3)
    await client.complete("m", prompt="x", max_new_tokens=3)
    assert [bool(key) for key in door.keys] == [True, False, True]


async def test_streams_and_single_attempts_make_no_keys(target: str, door: Door) -> None:
    async with AsyncClient(target, KEY) as client:
        await client.generate("m", prompt="x", max_new_tokens=3).collect()
    async with AsyncClient(target, KEY, retry=RetryPolicy(attempts=1)) as client:
        await client.complete("m", prompt="x", max_new_tokens=3)
    async with AsyncClient(target, KEY, automatic_keys=False) as client:
        await client.complete("m", prompt="x", max_new_tokens=3)
    assert door.keys == ["", "", ""]


async def test_nothing_is_retried_after_the_first_message(client: AsyncClient, door: Door) -> None:
    door.with_end = False
    with pytest.raises(ServerError, match="without its last record"):
        await client.complete("m", prompt="x", max_new_tokens=3)
    assert door.calls == 1


async def test_leaving_cancels_at_the_server(client: AsyncClient, door: Door) -> None:
    door.hold.clear()
    async with client.generate("m", prompt="x", max_new_tokens=3) as answer:
        async for _ in answer:
            break
    async with asyncio.timeout(5):
        await door.ended.wait()


async def test_closing_from_elsewhere_is_no_cancellation_of_the_task(
    client: AsyncClient, door: Door
) -> None:
    door.hold.clear()
    answer = client.generate("m", prompt="x", max_new_tokens=3)
    reader = asyncio.ensure_future(answer.collect())
    async with asyncio.timeout(5):
        while answer.accepted is None:
            await asyncio.sleep(0)
    await answer.aclose()
    with pytest.raises(CallCancelled):
        await asyncio.wait_for(reader, 5)


async def test_cancelling_the_reading_task_cancels_it(client: AsyncClient, door: Door) -> None:
    door.hold.clear()
    answer = client.generate("m", prompt="x", max_new_tokens=3)
    reader = asyncio.ensure_future(answer.collect())
    async with asyncio.timeout(5):
        while answer.accepted is None:
            await asyncio.sleep(0)
    reader.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(reader, 5)
    assert reader.cancelled()
    async with asyncio.timeout(5):
        await door.ended.wait()


async def test_the_deadline_ends_a_stalled_answer(client: AsyncClient, door: Door) -> None:
    door.hold.clear()
    with pytest.raises(DeadlineExceeded):
        await client.complete("m", prompt="x", max_new_tokens=3, timeout_s=0.3)


def test_waits_grow_and_are_bounded() -> None:
    policy = RetryPolicy(attempts=9, first_delay_s=1.0, longest_delay_s=4.0)
    away = Unavailable(grpc.StatusCode.UNAVAILABLE, "away")
    waits = [policy.delay_s(attempt, away, lambda _, most: most) for attempt in range(1, 10)]
    assert waits == [1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, None]


async def test_several_answers_and_their_tokens(door: Door, client: AsyncClient) -> None:
    door.answers = 2
    answer = await client.complete(
        "m",
        max_new_tokens=3,
        prompt="x",
        n=2,
        logprobs=1,
        logit_bias={5: -1.0},
        min_p=0.5,
        regex="[a-z]+",
    )
    assert [choice.text for choice in answer.choices] == ["Hello, world", "HELLO, WORLD"]
    assert [choice.finish_reason for choice in answer.choices] == ["length", "length"]
    assert answer.text == "Hello, world"
    assert [info.token for info in answer.choices[1].logprobs] == [b"t"] * 3
    request = door.last
    assert request is not None
    assert request.regex == "[a-z]+"
    assert (request.sampling.n, request.sampling.logprobs, request.sampling.min_p) == (2, 1, 0.5)
    assert dict(request.sampling.logit_bias) == {5: -1.0}
    async with client.generate("m", max_new_tokens=3, prompt="x", n=2) as stream:
        assert "".join([text async for text in stream]) == "Hello, world"
