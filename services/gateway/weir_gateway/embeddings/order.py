"""A call for embeddings, whatever door it came through."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.common.v1.subject_pb2 import LatencySla, RequestClass
from weir_core.errors import InvalidField

MAX_INPUTS = 2_048
GROUP_INPUTS = 64
"""Most inputs of one request to a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOrder:
    """What is asked for; nothing in it has been checked but its types.

    Attributes:
        model: name or alias.
        model_version: empty for one by weight.
        inputs: texts, or token ids.
        names: what the door calls each of them.
    """

    model: str
    inputs: Sequence[str | tuple[int, ...]]
    names: Sequence[str]
    model_version: str = ""
    latency_sla: "LatencySla.ValueType" = LatencySla.LATENCY_SLA_NORMAL
    priority: int = 0
    request_class: "RequestClass.ValueType" = RequestClass.REQUEST_CLASS_INTERACTIVE


def check_input_count(field: str, count: int) -> None:
    """Refuses none, and more than a call may have, before they are looked at one by one.

    Raises:
        InvalidField: there are none or too many.
    """
    if not 1 <= count <= MAX_INPUTS:
        raise InvalidField(field, f"{count} inputs", f"1 to {MAX_INPUTS} inputs")


def groups(lengths: Sequence[int], most_tokens: int) -> list[range]:
    """Places of inputs that go together: in order, within the tokens and inputs of a request.

    Args:
        lengths: tokens of each, at most `most_tokens`.
        most_tokens: of a group.
    """
    found: list[range] = []
    start = tokens = 0
    for at, length in enumerate(lengths):
        if at > start and (tokens + length > most_tokens or at - start == GROUP_INPUTS):
            found.append(range(start, at))
            start, tokens = at, 0
        tokens += length
    found.append(range(start, len(lengths)))
    return found
