"""Why a framed stream takes or gives no more."""

from weir_core.errors import Reason, WeirError


class StreamClosed(WeirError):
    """The stream has ended or is ending; the item was not taken."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(Reason.CANCELLED, f"the stream to {name} is closed: {why}")


class StreamFull(WeirError):
    """So much waits to be sent already that the item was not taken."""

    def __init__(self, name: str, items: int, size: int) -> None:
        super().__init__(
            Reason.QUEUE_FULL,
            f"{items} items ({size} bytes) wait already to be sent to {name}",
        )


class PeerLost(WeirError):
    """The peer went silent or stopped reading."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(Reason.DEADLINE_EXCEEDED, f"{name} is lost: {why}")
