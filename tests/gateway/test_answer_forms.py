"""Several answers, log-probabilities, echo and formats, as both doors write them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from tokenizers import pre_tokenizers

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway
from tests.gateway.test_openai_door import events_of
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.gateway.v1 import inference_service_pb2 as pb
from weir_core.byte_alphabet import character_of_byte
from weir_core.errors import Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")
STOP = FinishReason.FINISH_REASON_STOP
USER: Any = [{"role": "user", "content": "hi"}]


async def test_every_new_parameter_reaches_the_worker(gateway: Gateway) -> None:
    await gateway.openai().chat.completions.create(
        model=MODEL,
        messages=USER,
        max_tokens=4,
        presence_penalty=0.5,
        frequency_penalty=-0.25,
        logit_bias={"65": 3, "66": -100},
        logprobs=True,
        top_logprobs=2,
        n=3,
        extra_body={
            "min_p": 0.125,
            "repetition_penalty": 1.25,
            "min_tokens": 2,
            "stop_token_ids": [7],
        },
    )
    sampling = gateway.worker.specs[0].sampling
    assert sampling.presence_penalty == 0.5
    assert sampling.frequency_penalty == -0.25
    assert sampling.min_p == 0.125
    assert sampling.repetition_penalty == 1.25
    assert sampling.min_tokens == 2
    assert sampling.logprobs == 2
    assert not sampling.HasField("prompt_logprobs")
    assert sampling.n == 3
    assert dict(sampling.logit_bias) == {65: 3.0, 66: -100.0}
    assert gateway.limiter.only().request.max_new_tokens == 12
    assert gateway.scheduler.enqueued[0].max_new_tokens == 12


async def test_nothing_new_is_sent_that_was_not_asked_for(gateway: Gateway) -> None:
    await gateway.openai().chat.completions.create(model=MODEL, messages=USER, max_tokens=2)
    spec = gateway.worker.specs[0]
    assert spec.sampling.n == 0
    assert not spec.HasField("grammar")
    assert {field.name for field, _ in spec.sampling.ListFields()} <= {
        "temperature",
        "top_p",
        "top_k",
    }


async def test_answers_whole(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["one ", "two"], finish=STOP)
    answer = await gateway.openai().chat.completions.create(
        model=MODEL, messages=USER, max_tokens=4, n=3
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert [c.message.content for c in answer.choices] == ["one two", "ONE TWO", "one two"]
    assert {choice.finish_reason for choice in answer.choices} == {"stop"}
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6


async def test_answers_streamed_and_interleaved(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["one ", "two"], finish=STOP)
    stream = await gateway.openai().chat.completions.create(
        model=MODEL,
        messages=USER,
        max_tokens=4,
        n=2,
        stream=True,
        stream_options={"include_usage": True},
    )
    texts, finishes = ["", ""], {}
    async for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            if choice.finish_reason:
                finishes[choice.index] = choice.finish_reason
        usage = chunk.usage
    assert texts == ["one two", "ONE TWO"]
    assert finishes == {0: "stop", 1: "stop"}
    assert usage is not None
    assert usage.completion_tokens == 4


async def test_chat_logprobs_whole_and_streamed(gateway: Gateway) -> None:
    gateway.worker.script = Script(
        pieces=["a", "", "é", ""], token_ids=[*_ids("aé"), 258], finish=STOP
    )
    client = gateway.openai()
    whole = await client.chat.completions.create(
        model=MODEL, messages=USER, max_tokens=9, logprobs=True, top_logprobs=1
    )
    told = whole.choices[0].logprobs
    assert told is not None
    assert told.content is not None
    assert [entry.bytes for entry in told.content] == [[97], [195], [169]]
    assert [entry.token for entry in told.content] == ["a", "\\xc3", "\\xa9"]
    assert bytes(byte for entry in told.content for byte in entry.bytes or []) == "aé".encode()
    assert told.content[0].logprob == -0.5
    assert [len(entry.top_logprobs) for entry in told.content] == [1, 1, 1]
    stream = await client.chat.completions.create(
        model=MODEL, messages=USER, max_tokens=9, logprobs=True, top_logprobs=1, stream=True
    )
    streamed = [
        entry
        async for chunk in stream
        for choice in chunk.choices
        for entry in (choice.logprobs.content or [] if choice.logprobs else [])
    ]
    assert streamed == told.content


async def test_text_logprobs_and_offsets(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["a", "", "é", "b"], token_ids=_ids("aéb"), finish=STOP)
    answer = await gateway.openai().completions.create(
        model=MODEL, prompt="x", max_tokens=9, logprobs=2
    )
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.tokens == ["a", "bytes:\\xc3", "bytes:\\xa9", "b"]
    assert told.text_offset == [0, 1, 1, 2]
    assert told.token_logprobs == [-0.5] * 4
    assert told.top_logprobs is not None
    assert told.top_logprobs[0]["a"] == -0.5
    assert len(told.top_logprobs[0]) == 3


async def test_no_token_of_a_stop_string_is_told(gateway: Gateway) -> None:
    # "xEN" is out when D comes: N and E were held back, and are part of the match.
    gateway.worker.script = Script(pieces=["x", "", "", ""], token_ids=_ids("xEND"), finish=STOP)
    for stream in (False, True):
        response = await gateway.chat(max_tokens=9, logprobs=True, stop=["END"], stream=stream)
        bodies = events_of(response.text)[:-1] if stream else [response.json()]
        told = [
            entry["token"]
            for body in bodies
            for choice in body["choices"]
            for entry in (choice["logprobs"] or {"content": []})["content"]
        ]
        assert told == ["x"]


async def test_echo(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["a", "b"], token_ids=_ids("ab"), finish=STOP)
    client = gateway.openai()
    plain = await client.completions.create(model=MODEL, prompt="né", max_tokens=2, echo=True, n=2)
    assert [choice.text for choice in plain.choices] == ["néab", "néAB"]
    assert plain.choices[0].logprobs is None
    assert not gateway.worker.specs[0].sampling.HasField("prompt_logprobs")
    told = await client.completions.create(
        model=MODEL, prompt="né", max_tokens=2, echo=True, logprobs=1
    )
    logprobs = told.choices[0].logprobs
    assert told.choices[0].text == "néab"
    assert logprobs is not None
    assert logprobs.tokens == ["n", "bytes:\\xc3", "bytes:\\xa9", "a", "b"]
    assert logprobs.text_offset == [0, 1, 1, 2, 3]
    assert logprobs.token_logprobs == [None, -0.75, -0.75, -0.5, -0.5]
    stream = await client.completions.create(
        model=MODEL, prompt="né", max_tokens=2, echo=True, logprobs=1, stream=True
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == "néab"
    tokens = [
        t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.tokens or []
    ]
    assert tokens == logprobs.tokens
    ids = await client.completions.create(model=MODEL, prompt=_ids("né"), max_tokens=2, echo=True)
    assert ids.choices[0].text == "néab"


async def test_formats_reach_the_worker(gateway: Gateway) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    forms: list[tuple[dict[str, Any], str, Any]] = [
        ({"response_format": {"type": "json_object"}}, "json_schema", {"type": "object"}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": schema, "strict": True},
                }
            },
            "json_schema",
            schema,
        ),
        ({"json_schema": schema}, "json_schema", schema),
        ({"regex": "[a-z]+"}, "regex", "[a-z]+"),
        ({"lark_grammar": 'start: "a"'}, "lark", 'start: "a"'),
    ]
    for body, kind, wanted in forms:
        response = await gateway.chat(max_tokens=2, **body)
        assert response.status_code == 200, response.text
        grammar = gateway.worker.specs[-1].grammar
        assert grammar.WhichOneof("kind") == kind
        text = getattr(grammar, kind)
        assert (json.loads(text) if kind == "json_schema" else text) == wanted
    response = await gateway.chat(max_tokens=2, response_format={"type": "text"})
    assert not gateway.worker.specs[-1].HasField("grammar")


async def test_a_format_that_the_worker_refuses_is_the_clients_error(gateway: Gateway) -> None:
    gateway.worker.script = Script(refuse=True, error=Reason.INVALID_FIELD, field="grammar")
    format_: Any = {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"not": {}}},
    }
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            await gateway.openai().chat.completions.create(
                model=MODEL, messages=USER, max_tokens=2, response_format=format_, stream=stream
            )
        assert caught.value.param == "response_format.json_schema.schema"


async def test_the_native_door(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["a", "", "é"], token_ids=_ids("aé"), finish=STOP)
    for stream in (True, False):
        request = pb.GenerateRequest(
            model=MODEL,
            prompt="nb",
            max_new_tokens=9,
            stream=stream,
            regex="a.",
            sampling=SamplingParams(n=2, logprobs=1, prompt_logprobs=1),
        )
        texts = {0: "", 1: ""}
        told: dict[int, list[pb.TokenInfo]] = {0: [], 1: []}
        prompt: list[pb.TokenInfo] = []
        async for response in answer(gateway, request):
            if response.HasField("delta"):
                delta = response.delta
                texts[delta.choice] += delta.text
                told[delta.choice] += delta.logprobs
                prompt += delta.prompt_logprobs
            elif response.HasField("finished"):
                assert [end.finish_reason for end in response.finished.choices] == [STOP, STOP]
        assert texts == {0: "aé", 1: "AÉ"}
        assert [info.token for info in told[0]] == [b"a", b"\xc3", b"\xa9"]
        assert [info.logprob for info in told[1]] == [-0.5] * 3
        assert told[0][0].top[0].token_id == 65
        assert [(info.token, info.logprob) for info in prompt] == [(b"b", -0.75)]
        assert gateway.worker.specs[-1].grammar.regex == "a."


async def answer(
    gateway: Gateway, request: pb.GenerateRequest
) -> AsyncIterator[pb.GenerateResponse]:
    call: Any = gateway.stub.Generate(request, metadata=gateway.metadata)
    async for response in call:
        yield response


def _ids(text: str) -> list[int]:
    """Token ids of the harness's tokenizer: the place of a byte's character in its alphabet."""
    places = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    return [places[character_of_byte()[byte]] for byte in text.encode()]
