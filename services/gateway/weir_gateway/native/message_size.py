"""How large a message of a caller may be."""

from google.protobuf.message import Message

from weir_core.errors import Reason, WeirError


def check_size(request: Message, most: int) -> None:
    """Refuses a message of more than `most` bytes. Raises WeirError(BODY_TOO_LARGE)."""
    size = request.ByteSize()
    if size > most:
        raise WeirError(
            Reason.BODY_TOO_LARGE,
            f"the request has {size} bytes; at most {most} are taken; send less in one request",
        )
