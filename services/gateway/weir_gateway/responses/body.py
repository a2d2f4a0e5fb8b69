"""Bodies of `/v1/responses`.

As in the other doors a field is honoured, taken because it changes nothing, or refused by name.
"""

from typing import Any

from weir_gateway.intake.generation_request import FieldNames, GenerationRequest
from weir_gateway.intake.sampling_request import SamplingRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.pairs import metadata_of
from weir_gateway.openai.requests import model_name, own_fields
from weir_gateway.openai.service_tier import to_tier
from weir_gateway.openai.tool_fields import check_writable
from weir_gateway.responses.items import to_chat, to_items
from weir_gateway.responses.request import ResponseRequest
from weir_gateway.responses.text_format import to_text_format
from weir_gateway.responses.tools import to_tools

LOGPROBS = "message.output_text.logprobs"

_NAMES = FieldNames(messages="input", prompt="input", max_new_tokens="max_output_tokens")
_MOST_LOGPROBS = 20
_LONGEST_LABEL = 512
_LABELS = ("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
_REFUSED = {
    "conversation": "go on from an answer with previous_response_id",
    "prompt": "prompts are not kept; send input and instructions",
    "context_management": "nothing of a conversation is compacted; send less input",
    "background_options": "background responses run as soon as there is room",
    "moderation": "nothing is moderated here",
    "image": "answers are text",
    "prompt_cache_options": "prefixes are cached without being asked for",
    "personality": "say it in instructions",
    "access_programs": "there are none",
    "modalities": "answers are text",
}


def response_request(body: dict[str, Any], response_id: str) -> ResponseRequest:
    """The request that a body holds. Raises WeirError."""
    fields = Fields(body)
    tools, told_tools = to_tools(fields)
    output_format, told_text = to_text_format(fields)
    sampling, told_sampling = _sampling(fields)
    if tools.use is not None:
        _check_beside_tools(fields, sampling, bound=output_format is not None)
        output_format = tools.output_format
    tier, by_tier = to_tier(fields)
    items, instructions = to_items(fields), fields.text("instructions")
    max_tokens = fields.integer("max_output_tokens")
    background, stream = fields.boolean("background"), fields.boolean("stream")
    store, previous_id = _store(fields, background=background), fields.text("previous_response_id")
    request = GenerationRequest(
        chat=to_chat(instructions, items, tools.tools),
        tool_use=tools.use,
        output_format=output_format,
        model=model_name(fields),
        max_new_tokens=max_tokens,
        sampling=sampling,
        stream=stream,
        names=_NAMES,
        **(own_fields(fields) | by_tier),
    )
    told = {
        "instructions": instructions or None,
        "max_output_tokens": max_tokens,
        "max_tool_calls": fields.integer("max_tool_calls"),
        "metadata": metadata_of(fields),
        "previous_response_id": previous_id or None,
        "background": background,
        "truncation": "disabled",
        "reasoning": {"effort": None, "summary": None},
        **{name: _label(fields, name) for name in _LABELS},
        **told_tools,
        **told_text,
        **told_sampling,
    }
    for name, value in told.items():
        check_writable(fields, name, value)
    _check_neutral(fields, stream=stream)
    _refuse(fields)
    return ResponseRequest(
        request,
        service_tier=tier,
        id=response_id,
        told=told,
        instructions=instructions,
        items=items,
        previous_id=previous_id,
        chain_id=response_id,
        store=store,
        background=background,
    )


def count_request(body: dict[str, Any]) -> ResponseRequest:
    """The request whose input tokens are to be counted. Raises WeirError."""
    fields = Fields(body)
    for name in ("background", "store", "stream"):
        if fields.raw(name) is not None:
            raise fields.unknown(name)
    return response_request(body, "")


def _sampling(fields: Fields) -> tuple[SamplingRequest, dict[str, Any]]:
    top = fields.integer("top_logprobs")
    if top is not None and not 0 <= top <= _MOST_LOGPROBS:
        raise fields.invalid("top_logprobs", top, f"from 0 to {_MOST_LOGPROBS}")
    wanted = _include(fields)
    if top and not wanted:
        raise fields.invalid("top_logprobs", top, f"left out, or sent with {LOGPROBS} in include")
    sampling = SamplingRequest(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        top_k=fields.integer("top_k"),
        seed=fields.integer("seed"),
        logprobs=(top or 0) if wanted else None,
    )
    return sampling, {"top_logprobs": top or 0}


def _include(fields: Fields) -> bool:
    """Whether log-probabilities are asked for, the one thing here that can be included."""
    entries = fields.array("include")
    for at, entry in enumerate(entries):
        if not isinstance(entry, str):
            raise fields.invalid(f"include[{at}]", Shape(entry), "a string")
        if entry != LOGPROBS:
            told = entry[:64] if entry.isascii() else "it"
            raise fields.unsupported(f"include[{at}]", f"{told} is not there, only {LOGPROBS}")
    return bool(entries)


def _check_beside_tools(fields: Fields, sampling: SamplingRequest, *, bound: bool) -> None:
    if bound:
        why = "an answer that is bound to it can call none of the tools; leave one of them out"
        raise fields.unsupported("text.format", why)
    if sampling.logprobs is not None:
        raise fields.unsupported("include", "with tools log-probabilities are not told")


def _store(fields: Fields, *, background: bool) -> bool | None:
    store = None if fields.raw("store") is None else fields.boolean("store")
    if background and store is False:
        bound = "true, or left out, with background: true: the answer is fetched later"
        raise fields.invalid("store", store, bound)
    return store


def _label(fields: Fields, name: str) -> str | None:
    value = fields.text(name)
    if len(value) > _LONGEST_LABEL:
        raise fields.invalid(name, Shape(value), f"at most {_LONGEST_LABEL} characters")
    return value or None


def _check_neutral(fields: Fields, *, stream: bool) -> None:
    """Takes what may be sent while it says what is done anyway. Raises WeirError."""
    truncation = fields.raw("truncation")
    if truncation not in (None, "disabled"):
        raise fields.unsupported("truncation", "input is never cut; send disabled, or less input")
    reasoning = fields.nested("reasoning")
    if reasoning is not None:
        if reasoning.raw("effort") not in (None, "none"):
            raise reasoning.unsupported("effort", "models here write no thoughts of their own")
        for name in ("summary", "generate_summary"):
            if reasoning.raw(name) is not None:
                raise reasoning.unsupported(name, "there are no thoughts to summarise")
        reasoning.refuse_unknown()
    options = fields.nested("stream_options")
    if options is not None:
        if not stream:
            raise fields.unsupported("stream_options", "it goes with stream: true alone")
        if options.boolean("include_obfuscation"):
            raise options.unsupported("include_obfuscation", "events are not padded")
        options.refuse_unknown()


def _refuse(fields: Fields) -> None:
    for name, _ in fields.left_over():
        if name in _REFUSED:
            raise fields.unsupported(name, _REFUSED[name])
        raise fields.unknown(name)
