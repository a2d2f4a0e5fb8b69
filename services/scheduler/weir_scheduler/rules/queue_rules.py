"""How the requests of a pool take turns."""

from dataclasses import dataclass
from enum import StrEnum

from weir_scheduler.rules.ordering_parameters import OrderingParameters

_ORDERING = OrderingParameters()


class FairQueue(StrEnum):
    """What decides between the tenants of a pool with isolation `weighted`."""

    TOKENS = "tokens"
    LOCALITY = "locality"


@dataclass(frozen=True, slots=True)
class QueueRules:
    """Turns between tenants, and parameters of the order within one.

    Attributes:
        fair_queue: by tokens alone, or by cached prefixes within a quantum of tokens.
        quantum_tokens: of `LOCALITY`: weighted tokens at weight 1, 1 or more.
        ordering: parameters of the policy.
    """

    fair_queue: FairQueue = FairQueue.TOKENS
    quantum_tokens: int = 16_384
    ordering: OrderingParameters = _ORDERING
