"""Arguments of a call as a protobuf request."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict

from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import LatencySla, RequestClass
from weir.gateway.v1.inference_service_pb2 import ChatInput, ChatMessage, GenerateRequest

Message = ChatMessage | Mapping[str, str]


class GenerateOptions(TypedDict, total=False):
    """Optional arguments of a request; what is left out takes the default of model and tenant."""

    model_version: str
    temperature: float
    top_p: float
    top_k: int
    seed: int
    stop: Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    min_tokens: int
    logit_bias: Mapping[int, float]
    logprobs: int
    prompt_logprobs: int
    n: int
    conversation_id: str
    session_id: str
    latency_sla: Literal["low", "normal", "throughput"]
    priority: int
    request_class: Literal["interactive", "batch"]
    idempotency_key: str
    json_schema: str
    regex: str
    lark_grammar: str
    shared_prefix_characters: int
    tools_json: Sequence[str]
    prefix: str


_SAMPLING = tuple(SamplingParams.DESCRIPTOR.fields_by_name)
_DIRECT = (
    "model_version",
    "conversation_id",
    "session_id",
    "priority",
    "idempotency_key",
    "json_schema",
    "regex",
    "lark_grammar",
    "shared_prefix_characters",
    "prefix",
)


def build_request(
    model: str,
    *,
    messages: Iterable[Message] | None,
    prompt: str | None,
    max_new_tokens: int,
    stream: bool,
    options: GenerateOptions,
) -> GenerateRequest:
    """The request of these arguments; the server checks their bounds.

    Raises ValueError unless exactly one of `messages` and `prompt` is given, and TypeError or
    ValueError for what no protobuf field can hold.
    """
    if (messages is None) == (prompt is None):
        raise ValueError("give exactly one of messages and prompt")
    request = GenerateRequest(
        model=model,
        max_new_tokens=max_new_tokens,
        stream=stream,
        sampling=SamplingParams(**{k: v for k, v in options.items() if k in _SAMPLING}),  # type: ignore[arg-type]
        **{k: v for k, v in options.items() if k in _DIRECT},  # type: ignore[arg-type]
    )
    if prompt is not None:
        request.prompt = prompt
    else:
        tools = options.get("tools_json", ())
        request.chat.CopyFrom(chat_input(messages or (), tools))
    if "latency_sla" in options:
        request.latency_sla = LatencySla.Value(f"LATENCY_SLA_{options['latency_sla'].upper()}")
    if "request_class" in options:
        name = f"REQUEST_CLASS_{options['request_class'].upper()}"
        setattr(request, "class", RequestClass.Value(name))
    return request


def chat_input(messages: Iterable[Message], tools_json: Iterable[str] = ()) -> ChatInput:
    """The turns of a conversation; a mapping has the fields of ChatMessage."""
    turns = [m if isinstance(m, ChatMessage) else ChatMessage(**m) for m in messages]
    return ChatInput(messages=turns, tools_json=tools_json)
