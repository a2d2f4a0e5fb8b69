"""A request that was reserved and now runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir_gateway.flow.live_request import LiveRequest


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """A request that was reserved and now runs.

    Attributes:
        live: the request; its `delivery` holds the answer.
        limits: where the caller's limits stand now.
        degraded: the ratelimiter works on a share of the rates.
    """

    live: LiveRequest
    limits: Sequence[LimitStatus]
    degraded: bool
