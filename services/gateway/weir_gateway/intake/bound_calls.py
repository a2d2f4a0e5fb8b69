"""Calls that must meet their tools' schemas, in an answer that is free to make none."""

from dataclasses import replace

import orjson

from weir_core.errors import Reason, WeirError
from weir_gateway.intake.checks import check_format
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.output_format import OutputFormat
from weir_gateway.tools.call_format import CallFormat
from weir_gateway.tools.tool_use import ToolUse


def with_bound_calls(
    request: GenerationRequest, use: ToolUse, form: CallFormat | None
) -> GenerationRequest:
    """The request, whose answer is bound from the opening of each call to its end.

    Args:
        request: with no other format.
        use: has a schema of calls.
        form: of the model's calls.

    Raises:
        WeirError: UNSUPPORTED_FIELD, calls of this model have no marks that a grammar could
            follow; INVALID_FIELD, the schemas are too large or too deep.
    """
    if form is None or not form.bindable:
        raise WeirError(
            Reason.UNSUPPORTED_FIELD,
            f"{use.field} with strict true is not supported with tool_choice auto: calls of this "
            "model have no marks of their own that a grammar could follow; leave strict out, or "
            "send tool_choice required",
            field=use.field,
        )
    OutputFormat("json_schema", use.call_schema, use.field).check()
    tagged = {"begin": form.opening, "schema": orjson.loads(use.call_schema), "end": form.end}
    text = orjson.dumps(tagged).decode()
    bound = replace(request, output_format=OutputFormat("tagged_json", text, use.field))
    check_format(bound)
    return bound
