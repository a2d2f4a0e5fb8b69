"""Fencing: what an older active scheduler says is not listened to any more."""

from weir_core.errors import Reason, WeirError


class LeaderEpoch:
    """The newest term of an active scheduler that this process knows.

    Every grant, registration and stream names its term; a scheduler that was replaced without
    knowing it (its process stood still, its network was cut) is refused by it.

    Attributes:
        newest: highest seen; 0 before any.
    """

    def __init__(self) -> None:
        self.newest = 0

    def check(self, epoch: int, what: str) -> None:
        """Passes for the newest term and any newer one; 0, of a scheduler without terms, too.

        Raises WeirError(NOT_LEADER) for an older one; `what` belongs to it.
        """
        if epoch and epoch < self.newest:
            raise WeirError(
                Reason.NOT_LEADER,
                f"{what} is of the scheduler of term {epoch}; that of term {self.newest} has "
                "replaced it",
            )
        self.newest = max(self.newest, epoch)
