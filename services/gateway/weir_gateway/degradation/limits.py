"""What of a request would fit in the limits that refused it."""

from collections.abc import Sequence

from weir.directory.v1.directory_pb2 import Price
from weir_core.directory import DirectoryIndex
from weir_core.errors import LimitExceeded, Violation
from weir_gateway.intake.prepared_request import PreparedRequest

_PER_ANSWER = ("tokens", "output_tokens", "in_flight_tokens")
_PER_REQUEST = ("context_tokens", "max_new_tokens", "kv_tokens")


def another_model_helps(
    index: DirectoryIndex, prepared: PreparedRequest, refused: LimitExceeded
) -> bool:
    """Whether each limit that refused counts this model alone, or what its tokens cost."""
    subject = prepared.subject
    scoped = (
        *index.cluster_limits,
        *index.tenant_limits(subject.tenant_id),
        *index.user_limits(subject.tenant_id, subject.user_id),
        *index.key_limits(subject.api_key_id),
    )
    of_model = {entry.id for entry in scoped if entry.limit.model}
    return all(
        violation.layer == "model" or violation.limit_id in of_model or _base(violation) == "cost"
        for violation in refused.violations
    )


def lower_bounds(
    prepared: PreparedRequest, refused: LimitExceeded, price: Price, floor: int
) -> Sequence[int]:
    """Values of `max_new_tokens` that may fit, the largest first; none when none can.

    Where the limit's numbers are not the caller's own, only the lowest value is worth asking.
    """
    if prepared.max_new_tokens <= floor:
        return ()
    most = prepared.max_new_tokens
    for violation in refused.violations:
        cut = _cut(violation, prepared.choices, price)
        if cut is None:
            return ()
        most = min(most, prepared.max_new_tokens - cut)
    if most < floor:
        return ()
    return (most, floor) if most > floor else (floor,)


def _cut(violation: Violation, choices: int, price: Price) -> int | None:
    """Tokens that each answer must be shorter by; None when that does not help."""
    base = _base(violation)
    if base == "cost" and price.output_nanos:
        unit = price.output_nanos * choices
    elif base in _PER_ANSWER:
        unit = choices
    elif base in _PER_REQUEST:
        unit = 1
    else:
        return None
    if violation.limit is None or violation.used is None:
        return 0
    short = violation.requested - (violation.limit - violation.used)
    return max(0, -(-short // unit))


def _base(violation: Violation) -> str:
    return violation.resource.partition("_per_")[0]
