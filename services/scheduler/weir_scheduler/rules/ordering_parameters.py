"""What a pool sets of its queue policy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrderingParameters:
    """Parameters of a policy; None leaves the policy's own default (see its README).

    Attributes:
        promote_after_us: age from which a waiting request may overtake what is more urgent.
        promote_every: of so many dispatches one may go to an aged request, 1 or more.
        max_overtaken: requests that may overtake one that waits; 0 for none.
        aging_us_per_token: waiting time that makes up for one token more of remaining work.
    """

    promote_after_us: int | None = None
    promote_every: int | None = None
    max_overtaken: int | None = None
    aging_us_per_token: int | None = None
