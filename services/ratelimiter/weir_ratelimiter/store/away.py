"""What a shared store raises when it cannot be asked."""

from weir_core.errors import Reason, WeirError


class StoreAway(WeirError):
    """The shared store gave no answer; what it was asked may or may not have been done.

    Attributes:
        cause: why, in a few words, without address or secret.
        refused: nobody listens there, so that asking again at once is useless.
    """

    def __init__(self, cause: str, *, refused: bool = False) -> None:
        super().__init__(
            Reason.LIMITER_UNAVAILABLE,
            f"the shared store of the limits is away: {cause}",
            retry_after_s=1.0,
        )
        self.cause = cause
        self.refused = refused
