"""Bodies of `/v1/messages` as requests.

As in OpenAI's door a field is honoured, taken because it changes nothing, or refused by name.
"""

from typing import Any

from weir_core.errors import InvalidField
from weir_gateway.anthropic.messages import to_chat
from weir_gateway.anthropic.tools import to_tools
from weir_gateway.intake.generation_request import FieldNames, GenerationRequest
from weir_gateway.intake.sampling_request import SamplingRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.requests import HttpRequest, model_name, own_fields
from weir_gateway.prefixes.prefix import calls_of_prefix

_NAMES = FieldNames(max_new_tokens="max_tokens")
_SERVICE_TIERS = {"auto": "", "standard_only": ""}


def messages_request(body: dict[str, Any]) -> HttpRequest:
    """The request of a message. Raises WeirError."""
    fields = Fields(body)
    tools, own = to_tools(fields), own_fields(fields)
    request = GenerationRequest(
        chat=to_chat(fields, tools.tools),
        tool_use=calls_of_prefix(tools.use, own["prefix"]),
        output_format=tools.output_format,
        model=model_name(fields),
        max_new_tokens=fields.integer("max_tokens"),
        requires_max_new_tokens=True,
        sampling=_sampling(fields),
        stream=fields.boolean("stream"),
        names=_NAMES,
        **own,
    )
    _take_without_effect(fields)
    fields.refuse_unknown()
    return HttpRequest(request)


def count_request(body: dict[str, Any]) -> GenerationRequest:
    """The request whose tokens are to be counted. Raises WeirError."""
    fields = Fields(body)
    tools = to_tools(fields)
    request = GenerationRequest(
        chat=to_chat(fields, tools.tools),
        model=model_name(fields),
        prefix=fields.text("prefix"),
    )
    _take_without_effect(fields)
    fields.refuse_unknown()
    return request


def _sampling(fields: Fields) -> SamplingRequest:
    return SamplingRequest(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        top_k=fields.integer("top_k"),
        seed=fields.integer("seed"),
        stop=_stop(fields),
    )


def _stop(fields: Fields) -> tuple[str, ...]:
    values = fields.array("stop_sequences")
    for at, entry in enumerate(values):
        if not isinstance(entry, str):
            raise InvalidField(f"stop_sequences[{at}]", Shape(entry), "a string")
    return tuple(values)


def _take_without_effect(fields: Fields) -> None:
    fields.nested("metadata")
    fields.nested("cache_control")
    fields.choice("service_tier", _SERVICE_TIERS, "")
    thinking = fields.nested("thinking")
    if thinking is not None and thinking.raw("type") != "disabled":
        raise fields.unsupported("thinking", "models here write no thoughts apart from their text")
