"""How models write calls of tools; which of the ways a model has is seen in its template."""

import re
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallFormat:
    """One way: `opening`, JSON objects between `begin` and `end`, `separator` between them.

    Attributes:
        name: of the family.
        opening: stands before calls, anywhere in the text; empty for none.
        begin, end: stand around the objects; may be empty.
        separator: stands between two objects; empty where each has an opening of its own.
        bare: an answer may begin with calls without the opening: where the opening is a special
            token its text is not in the answer.
        call_id: form of the ids that the template takes back.
    """

    name: str
    opening: str
    begin: str = ""
    end: str = ""
    separator: str = ""
    bare: bool = False
    call_id: str = "call_"

    @property
    def bindable(self) -> bool:
        """Whether a grammar can find calls in a free answer: each has marks of its own."""
        return bool(self.opening and self.end and not self.separator)


HERMES = CallFormat("hermes", "<tool_call>", end="</tool_call>")
LLAMA3 = CallFormat("llama3", "<|python_tag|>", separator=";", bare=True)
# Its templates refuse ids that are not nine letters and digits.
MISTRAL = CallFormat(
    "mistral", "[TOOL_CALLS]", begin="[", end="]", separator=",", bare=True, call_id=""
)

_LLAMA3 = re.compile(r'<\|python_tag\|>|"parameters": dictionary of argument')


def format_of(template: str, unseen: Collection[str]) -> CallFormat | None:
    """The format that a chat template asks its model for; None when it is none of ours.

    Args:
        template: its Jinja source.
        unseen: special tokens, whose text is not in answers.
    """
    if "tools" not in template:
        return None
    # Calls in XML, and names outside of the JSON, are other formats with the same openings.
    if "<tool_call>" in template and "<function=" not in template:
        return None if HERMES.opening in unseen else HERMES
    if "[TOOL_CALLS]" in template and "[ARGS]" not in template:
        return MISTRAL
    return LLAMA3 if _LLAMA3.search(template) else None


def enforced(family: CallFormat) -> CallFormat:
    """The format of answers that a grammar binds: a JSON array of calls and nothing else."""
    return CallFormat(
        family.name, "", begin="[", end="]", separator=",", bare=True, call_id=family.call_id
    )
