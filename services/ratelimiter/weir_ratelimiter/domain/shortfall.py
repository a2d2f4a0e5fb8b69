"""A limit that a request does not fit in."""

import msgspec

from weir_ratelimiter.domain.limit import Limit


class Shortfall(msgspec.Struct, frozen=True, gc=False):
    """Why one limit refuses.

    Attributes:
        limit: the limit.
        requested: units asked for.
        used: units in use, more than the capacity in debt.
        wait_ms: milliseconds until the request would fit; None if it never will.
    """

    limit: Limit
    requested: int
    used: int
    wait_ms: int | None
