"""What the leader store holds: who is active, or that nobody is."""

import json
from dataclasses import dataclass
from enum import StrEnum

from weir_core.errors import Reason, WeirError


class LeaseState(StrEnum):
    """What a record says."""

    HELD = "held"
    # Given back: anybody may take it at once.
    FREE = "free"
    # The store knew nothing, and may have forgotten a lease.
    VACANT = "vacant"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """One value of the store; no two writes are alike, so that equal text is the same write.

    Attributes:
        state: held, free or vacant.
        holder: unique id of a process start; of a vacancy, of whoever found it.
        address: `host:port` at which peers reach the holder.
        epoch: term, higher for each new holder.
        turn: number of the write within the holder's life.
    """

    state: LeaseState
    holder: str
    address: str
    epoch: int
    turn: int

    def text(self) -> str:
        """As it is stored."""
        fields = [self.state.value, self.holder, self.address, self.epoch, self.turn]
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> "LeaseRecord":
        """Raises WeirError(INTERNAL) when the text is no record, such as another program's key."""
        try:
            state, holder, address, epoch, turn = json.loads(text)
            return cls(LeaseState(state), str(holder), str(address), int(epoch), int(turn))
        except (ValueError, TypeError) as error:
            raise WeirError(
                Reason.INTERNAL,
                f"the leader store holds something that is no lease ({error}); give leader_key "
                "a name that nothing else uses",
            ) from None
