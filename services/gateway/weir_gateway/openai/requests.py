"""Bodies of `/v1/chat/completions` and `/v1/completions` as requests.

Every field of OpenAI's is either honoured, ignored because it changes nothing of the answer,
or refused by name; fields that do not exist are refused too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weir.common.v1.subject_pb2 import (
    LATENCY_SLA_LOW,
    LATENCY_SLA_NORMAL,
    LATENCY_SLA_THROUGHPUT,
    REQUEST_CLASS_BATCH,
    REQUEST_CLASS_INTERACTIVE,
)
from weir_core.errors import InvalidField
from weir_gateway.intake.checks import check_token_count
from weir_gateway.intake.generation_request import FieldNames, GenerationRequest
from weir_gateway.intake.output_format import OutputFormat
from weir_gateway.intake.sampling_request import SamplingRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.messages import to_chat
from weir_gateway.openai.response_format import to_output_format
from weir_gateway.openai.sampling_fields import is_id, to_sampling
from weir_gateway.openai.service_tier import to_tier
from weir_gateway.openai.tool_fields import ToolFields, to_tools
from weir_gateway.prefixes.prefix import calls_of_prefix

_HARMLESS = frozenset(
    {
        "user",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "function_call",
        "prediction",
    }
)
_LATENCY = {
    "low": LATENCY_SLA_LOW,
    "normal": LATENCY_SLA_NORMAL,
    "throughput": LATENCY_SLA_THROUGHPUT,
}
_CLASSES = {
    "interactive": REQUEST_CLASS_INTERACTIVE,
    "batch": REQUEST_CLASS_BATCH,
}
_OWN = frozenset(
    {
        "model_version",
        "conversation_id",
        "session_id",
        "prefix",
        "latency_sla",
        "priority",
        "class",
    }
)
# Field -> the value at which it changes nothing.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "tools": ([],),
    "functions": ([],),
    "modalities": (["text"],),
    "audio": (),
    "store": (False,),
    "web_search_options": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "echo": (False,),
    "best_of": (),
    "suffix": ("",),
    "moderation": (),
    # Names under which other engines take an adapter.
    "adapter_id": (),
    "lora_path": (),
    "lora_request": (),
}
_WHY = {
    "tools": "it goes with chat completions",
    "functions": "send tools, its newer name",
    **dict.fromkeys(("adapter_id", "lora_path", "lora_request"), "LoRA adapters are not built"),
}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request and how its answer is to look."""

    request: GenerationRequest
    include_usage: bool = False
    service_tier: str = ""


def chat_request(body: dict[str, Any]) -> HttpRequest:
    """The request of a chat completion. Raises WeirError."""
    return _request(body, chat_input, chat=True)


def completion_request(body: dict[str, Any]) -> HttpRequest:
    """The request of a completion. Raises WeirError."""
    return _request(body, _prompt_input, chat=False)


def _request(
    body: dict[str, Any],
    read_input: Callable[[Fields, ToolFields], dict[str, Any]],
    *,
    chat: bool,
) -> HttpRequest:
    fields = Fields(body)
    max_field, max_tokens = _max_tokens(fields)
    stream = fields.boolean("stream")
    tier, by_tier = to_tier(fields)
    own = own_fields(fields)
    tools = to_tools(fields) if chat else ToolFields()
    sampling, output_format = to_sampling(fields, chat=chat), to_output_format(fields)
    if tools.use is not None:
        _check_beside_tools(fields, sampling, output_format)
        output_format = tools.output_format
    request = GenerationRequest(
        **read_input(fields, tools),
        tool_use=calls_of_prefix(tools.use, own["prefix"]) if chat else None,
        model=model_name(fields),
        max_new_tokens=max_tokens,
        sampling=sampling,
        output_format=output_format,
        echo=not chat and fields.boolean("echo"),
        stream=stream,
        **(own | by_tier),
        names=FieldNames(max_new_tokens=max_field),
    )
    include_usage = _include_usage(fields, stream=stream)
    _refuse_unsupported(fields)
    return HttpRequest(request, include_usage, tier)


def own_fields(fields: Fields) -> dict[str, Any]:
    """Fields of our own that any body may have. Raises WeirError."""
    return _read_own(fields) if fields.has_any(_OWN) else dict(_NONE_OWN)


def _read_own(fields: Fields) -> dict[str, Any]:
    return {
        "model_version": fields.text("model_version"),
        "conversation_id": fields.text("conversation_id"),
        "session_id": fields.text("session_id"),
        "prefix": fields.text("prefix"),
        "latency_sla": fields.choice("latency_sla", _LATENCY, LATENCY_SLA_NORMAL),
        "priority": fields.integer("priority") or 0,
        "request_class": fields.choice("class", _CLASSES, REQUEST_CLASS_INTERACTIVE),
    }


_NONE_OWN = _read_own(Fields({}))


def model_name(fields: Fields) -> str:
    """The model that is asked for. Raises InvalidField."""
    model = fields.raw("model")
    if not isinstance(model, str):
        raise InvalidField("model", model, "the name of a model")
    return model


def chat_input(fields: Fields, tools: ToolFields) -> dict[str, Any]:
    """The chat of a body, and the tools that the model is told of. Raises WeirError."""
    return {"chat": to_chat(fields, tools.tools)}


def _prompt_input(fields: Fields, _: ToolFields) -> dict[str, Any]:
    value = fields.raw("prompt")
    shared = fields.integer("shared_prefix_characters") or 0
    if isinstance(value, list) and len(value) == 1 and not is_id(value[0]):
        value = value[0]
    if isinstance(value, str):
        return {"prompt": value, "shared_prefix_characters": shared}
    if isinstance(value, list):
        check_token_count("prompt", value)
    if isinstance(value, list) and value and all(map(is_id, value)):
        return {"token_ids": tuple(value)}
    if isinstance(value, list) and len(value) > 1:
        raise fields.unsupported("prompt", "one prompt a request; send several requests")
    raise InvalidField("prompt", Shape(value), "a string, or an array of token ids, not empty")


def _check_beside_tools(
    fields: Fields, sampling: SamplingRequest, output_format: OutputFormat | None
) -> None:
    if output_format is not None:
        why = "an answer that is bound to it can call none of the tools; leave one of them out"
        raise fields.unsupported(output_format.field, why)
    if sampling.logprobs is not None:
        raise fields.unsupported("logprobs", "with tools it is not: calls have no place for it")


def _max_tokens(fields: Fields) -> tuple[str, int | None]:
    """The bound on output and the name under which it came; its names must agree."""
    names = ("max_completion_tokens", "max_tokens", "max_new_tokens")
    given = [(name, value) for name in names if (value := fields.integer(name)) is not None]
    if not given:
        return "max_tokens", None
    for name, value in given[1:]:
        if value != given[0][1]:
            raise InvalidField(
                name, value, f"left out, or equal to {given[0][0]} ({given[0][1]}), its other name"
            )
    return given[0]


def _include_usage(fields: Fields, *, stream: bool) -> bool:
    options = fields.nested("stream_options")
    if options is None:
        return False
    if not stream:
        raise fields.unsupported("stream_options", "it goes with stream: true alone")
    include = options.boolean("include_usage")
    options.boolean("include_obfuscation")
    options.refuse_unknown()
    return include


def _refuse_unsupported(fields: Fields) -> None:
    for name, value in fields.left_over():
        neutral = _NEUTRAL.get(name)
        if neutral is None and name not in _HARMLESS:
            raise fields.unknown(name)
        if neutral is not None and not _is_neutral(value, neutral):
            raise fields.unsupported(name, _WHY.get(name, "it would change the answer"))


def _is_neutral(value: object, neutral: tuple[object, ...]) -> bool:
    # 0 is not False here, nor 1 True: a wrong type is not a neutral value.
    numbers = (int, float)
    return any(
        value == entry
        and (type(value) is type(entry) or (type(value) in numbers and type(entry) in numbers))
        for entry in neutral
    )
