"""What goes out to engines of different dialects."""

from collections.abc import Callable
from typing import Any

import pytest

from weir_core.errors import Reason, WeirError
from weir_worker.engine.commands import Submit
from weir_worker.remote.completion_body import completion_body
from weir_worker.remote.dialect import DIALECTS, DialectName
from weir_worker.sampling import Grammar, SamplingParams
from weir_worker.sampling.grammar import GrammarKind


def body(name: DialectName, sampling: SamplingParams | None = None, **fields: Any) -> Any:
    submit = Submit(
        request_id="r",
        attempt=1,
        tenant="acme",
        prompt_token_ids=[7, 8],
        max_new_tokens=5,
        sampling=sampling or SamplingParams(temperature=0.0),
        **fields,
    )
    return completion_body(submit, "m", DIALECTS[name], lambda ids: f"text of {ids}")


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_dialect_sends_what_the_api_has(name: DialectName) -> None:
    sent = body(name, SamplingParams(temperature=0.5, top_p=0.9, seed=3), stop=["x"])
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("m", 5, 0.5)
    assert (sent["top_p"], sent["seed"], sent["stop"], sent["stream"]) == (0.9, 3, ["x"], True)


@pytest.mark.parametrize(
    ("name", "prompt"),
    [("vllm", [7, 8]), ("llama.cpp", [7, 8]), ("llama-cpp-python", "text of [7, 8]")],
)
def test_prompts_are_ids_where_the_engine_takes_them(name: DialectName, prompt: object) -> None:
    assert body(name)["prompt"] == prompt


@pytest.mark.parametrize(
    ("name", "off"), [("vllm", 0), ("sglang", -1), ("llama.cpp", 0), ("llama-cpp-python", 0)]
)
def test_no_default_of_the_engine_takes_the_place_of_off(name: DialectName, off: int) -> None:
    sent = body(name)
    assert (sent["top_k"], sent["min_p"]) == (off, 0.0)
    assert sent[DIALECTS[name].repetition or ""] == 1.0


def test_an_engine_of_the_plain_api_gets_no_field_it_does_not_know() -> None:
    known = {
        "model", "prompt", "max_tokens", "temperature", "top_p", "stream", "stream_options",
        "presence_penalty", "frequency_penalty",
    }  # fmt: skip
    assert set(body("openai")) == known


def test_what_vllm_adds_is_used() -> None:
    sampling = SamplingParams(min_p=0.1, repetition_penalty=1.2, min_tokens=2, logit_bias={5: -1.0})
    sent = body("vllm", sampling, stop_token_ids=[9], ignore_eos=True)
    assert (sent["min_p"], sent["repetition_penalty"], sent["min_tokens"]) == (0.1, 1.2, 2)
    assert (sent["stop_token_ids"], sent["ignore_eos"]) == ([9], True)
    assert sent["logit_bias"] == {"5": -1.0}
    assert sent["return_token_ids"] is True
    assert body("llama.cpp", SamplingParams(repetition_penalty=1.2))["repeat_penalty"] == 1.2


_ASKED: list[tuple[DialectName, str, Callable[[], Any]]] = [
    ("openai", "top_k", lambda: body("openai", SamplingParams(top_k=4))),
    ("openai", "min_p", lambda: body("openai", SamplingParams(min_p=0.1))),
    ("openai", "repetition_penalty", lambda: body("openai", SamplingParams(repetition_penalty=2))),
    ("tgi", "logit_bias", lambda: body("tgi", SamplingParams(logit_bias={1: 1.0}))),
    ("llama.cpp", "stop_token_ids", lambda: body("llama.cpp", stop_token_ids=[3])),
    ("llama.cpp", "min_tokens", lambda: body("llama.cpp", SamplingParams(min_tokens=1))),
    ("llama-cpp-python", "ignore_eos", lambda: body("llama-cpp-python", ignore_eos=True)),
    ("vllm", "logprobs", lambda: body("vllm", SamplingParams(logprobs=0))),
    ("vllm", "regex", lambda: body("vllm", grammar=Grammar(GrammarKind.REGEX, "a+"))),
    ("vllm", "lark_grammar", lambda: body("vllm", grammar=Grammar(GrammarKind.LARK, "x"))),
    ("vllm", "json_schema", lambda: body("vllm", grammar=Grammar(GrammarKind.JSON_SCHEMA, "{}"))),
]


@pytest.mark.parametrize(("name", "field", "ask"), _ASKED)
def test_what_an_engine_would_ignore_is_refused(
    name: DialectName, field: str, ask: Callable[[], Any]
) -> None:
    with pytest.raises(WeirError, match=field) as refused:
        ask()
    assert (refused.value.reason, refused.value.field) == (Reason.UNSUPPORTED_FIELD, field)
