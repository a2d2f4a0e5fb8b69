"""What the ratelimiter holds for a request."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus


@dataclass(frozen=True, slots=True)
class Reservation:
    """An admission; `record` is echoed to the ratelimiter, tokens are as debited."""

    id: str
    record: bytes
    prompt_tokens: int
    output_tokens: int
    limits: Sequence[LimitStatus]
    degraded: bool
