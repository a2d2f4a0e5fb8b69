"""Which tools an answer may call."""

from dataclasses import dataclass

from weir_gateway.tools.call_format import CallFormat
from weir_gateway.tools.call_parser import CallParser


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What was asked for of calls.

    Attributes:
        names: of the tools that may be called.
        enforced: the answer must be calls and is bound to a JSON array of them.
        parallel: there may be several.
        field: what the door calls the tools.
        call_schema: that every call in a free answer must meet, as JSON; empty where nothing
            binds them.
    """

    names: frozenset[str]
    enforced: bool = False
    parallel: bool = True
    field: str = "tools"
    call_schema: str = ""

    def parser(self, form: CallFormat) -> CallParser:
        """What finds the calls of one answer."""
        return CallParser(form, self.names, most=None if self.parallel else 1)
