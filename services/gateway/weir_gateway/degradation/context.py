"""What of a request fits where it is too long."""

from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_gateway.degradation.change import Changed

TOO_LONG = (Reason.CONTEXT_LENGTH_EXCEEDED, Reason.REQUEST_TOO_LARGE)


def fitting_bound(asked: Changed, refused: WeirError, floor: int) -> int | None:
    """The largest `max_new_tokens` that fits beside the prompt; None if it is below `floor`."""
    wanted = asked.request.max_new_tokens
    if wanted is None:
        return None
    bound = wanted - _excess(refused)
    return bound if floor <= bound < wanted else None


def cuts(asked: Changed) -> list[int]:
    """Indices of the user turns that a conversation may begin with after its system messages.

    A turn of the user is never parted from the calls and results that follow it.
    """
    chat = asked.request.chat
    if chat is None:
        return []
    start = chat.head_length + 1
    return [
        at for at, message in enumerate(chat.messages) if at >= start and message.role == "user"
    ]


def _excess(refused: WeirError) -> int:
    if isinstance(refused, LimitExceeded) and refused.violations:
        violation = refused.violations[0]
        return violation.requested - (violation.limit or 0)
    needed = refused.metadata.get("needed_tokens", "0")
    return int(needed) - int(refused.metadata.get("kv_quota_tokens", "0"))
