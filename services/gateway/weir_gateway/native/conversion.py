"""Messages of `gateway.v1` to requests, and the life of a request to messages."""

import json
from collections.abc import Mapping
from typing import Any

from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import LatencySla, RequestClass
from weir.gateway.v1.inference_service_pb2 import (
    Accepted,
    ChatInput,
    Finished,
    GenerateRequest,
    TokenizeRequest,
)
from weir_core.errors import InvalidField
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.lifecycle import record_of
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.intake.checks import check_message_count, check_token_count
from weir_gateway.intake.generation_request import FieldNames, GenerationRequest
from weir_gateway.intake.json_checks import WRITABLE, is_writable
from weir_gateway.intake.output_format import OutputFormat
from weir_gateway.intake.sampling_request import SamplingRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.text.chat import Chat, ChatMessage

_NAMES = FieldNames(messages="chat.messages", sampling="sampling.")
_TOKEN_NAMES = FieldNames(prompt="token_input.token_ids", sampling="sampling.")


def to_request(message: GenerateRequest) -> GenerationRequest:
    """A request to generate.

    Raises:
        WeirError: INVALID_FIELD.
    """
    return GenerationRequest(
        **_input(message),
        model=message.model,
        model_version=message.model_version,
        shared_prefix_characters=message.shared_prefix_characters,
        max_new_tokens=_max_new_tokens(message),
        requires_max_new_tokens=True,
        sampling=_sampling(message.sampling),
        output_format=_output_format(message),
        stream=message.stream,
        conversation_id=message.conversation_id,
        session_id=message.session_id,
        prefix=message.prefix,
        latency_sla=known(LatencySla, "latency_sla", message.latency_sla)
        or LatencySla.LATENCY_SLA_NORMAL,
        priority=message.priority,
        request_class=known(RequestClass, "class", getattr(message, "class")),
    )


def to_tokenize_request(message: TokenizeRequest) -> GenerationRequest:
    """A request whose tokens are to be counted. Raises WeirError."""
    return GenerationRequest(**_input(message), model=message.model, prefix=message.prefix)


def accepted_message(live: LiveRequest) -> Accepted:
    """The first message of an answer."""
    prepared = live.prepared
    return Accepted(
        request_id=live.id,
        model=prepared.subject.model,
        model_version=prepared.subject.model_version,
        prompt_tokens=prepared.prompt_tokens,
        max_new_tokens=prepared.max_new_tokens,
        reserved_tokens=live.facts.reserved_tokens,
        priority=prepared.priority,
        session_id=prepared.session_id,
        degradations=prepared.degradations,
    )


def finished_message(live: LiveRequest, ending: Ending) -> Finished:
    """The last message of an answer."""
    return Finished(
        finish_reason=ending.finish_reason,
        usage=ending.usage,
        lifecycle=record_of(live, ending),
        choices=() if ending.terminal is None else ending.terminal.choices,
    )


def _input(message: GenerateRequest | TokenizeRequest) -> dict[str, Any]:
    kind = message.WhichOneof("input")
    if kind == "chat":
        return {"chat": to_native_chat(message.chat), "names": _NAMES}
    if kind == "prompt":
        return {"prompt": message.prompt, "names": _NAMES}
    if kind == "token_input" and isinstance(message, GenerateRequest):
        check_token_count(_TOKEN_NAMES.prompt, message.token_input.token_ids)
        return {"token_ids": tuple(message.token_input.token_ids), "names": _TOKEN_NAMES}
    raise InvalidField("input", None, "one of chat, prompt and token_input")


def to_native_chat(chat: ChatInput) -> Chat:
    """A chat of the contract. Raises WeirError: INVALID_FIELD."""
    check_message_count("chat.messages", chat.messages)
    check_message_count("chat.tools_json", chat.tools_json)
    messages = tuple(
        ChatMessage(
            role=message.role,
            content=message.content,
            name=message.name,
            tool_call_id=message.tool_call_id,
            tool_calls=_objects(f"chat.messages[{at}].tool_calls_json", message.tool_calls_json),
        )
        for at, message in enumerate(chat.messages)
    )
    tools = tuple(
        tool
        for at, text in enumerate(chat.tools_json)
        for tool in _objects(f"chat.tools_json[{at}]", text)
    )
    return Chat(messages, tools)


def _objects(field: str, text: str) -> tuple[Mapping[str, Any], ...]:
    """The JSON object, or the list of objects, of a text; none for an empty one."""
    if not text:
        return ()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, dict) for entry in values):
        raise InvalidField(field, Shape(text), "a JSON object or a list of them")
    if not is_writable(values):
        raise InvalidField(field, Shape(text), WRITABLE)
    return tuple(values)


def _max_new_tokens(message: GenerateRequest) -> int | None:
    own = message.max_new_tokens if message.HasField("max_new_tokens") else None
    alias = message.max_tokens if message.HasField("max_tokens") else None
    if own is not None and alias is not None and own != alias:
        raise InvalidField(
            "max_tokens", alias, f"left out, or equal to max_new_tokens ({own}), its other name"
        )
    return alias if own is None else own


def _sampling(params: SamplingParams) -> SamplingRequest:
    def optional(name: str) -> Any:
        return getattr(params, name) if params.HasField(name) else None  # type: ignore[arg-type]

    return SamplingRequest(
        temperature=optional("temperature"),
        top_p=optional("top_p"),
        top_k=optional("top_k"),
        seed=optional("seed"),
        stop=tuple(params.stop),
        stop_token_ids=tuple(params.stop_token_ids),
        ignore_eos=params.ignore_eos,
        min_p=optional("min_p"),
        repetition_penalty=optional("repetition_penalty"),
        presence_penalty=optional("presence_penalty"),
        frequency_penalty=optional("frequency_penalty"),
        min_tokens=params.min_tokens,
        logit_bias=tuple(params.logit_bias.items()),
        logprobs=optional("logprobs"),
        prompt_logprobs=optional("prompt_logprobs"),
        n=params.n or 1,
    )


def _output_format(message: GenerateRequest) -> OutputFormat | None:
    names = {"json_schema": "json_schema", "regex": "regex", "lark_grammar": "lark"}
    found = [
        OutputFormat(kind, getattr(message, field), field)
        for field, kind in names.items()
        if getattr(message, field)
    ]
    if len(found) > 1:
        raise InvalidField(
            found[1].field, "set", f"left out, as {found[0].field} says already what to match"
        )
    return found[0] if found else None


def known(enum: Any, field: str, value: int) -> Any:
    """A value that the enum has. Raises InvalidField."""
    if value not in enum.values():
        names = ", ".join(name for name, number in enum.items() if number)
        raise InvalidField(field, value, f"one of {names}")
    return value
