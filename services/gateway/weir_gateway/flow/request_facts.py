"""What is known of a request while it lives: times, place, progress, account."""

from dataclasses import dataclass, field

from weir.scheduler.v1.scheduler_service_pb2 import Dispatched
from weir_gateway.flow.reservation import Reservation


@dataclass(slots=True, kw_only=True)
class RequestFacts:
    """Times are Unix microseconds, 0 for not yet; counts are tokens.

    Attributes:
        arrived_us: when its reservation was begun.
        accepted_us: when it was reserved.
        queued_us: when it first entered the scheduler's queue.
        waiting_since_us: when its present or last wait there began.
        queue_us: time in that queue, of all its attempts, until each had a worker.
        first_token_us: when the first tokens reached the gateway.
        ended_us: when its end was known.
        reservation_id: of the reservation.
        record: the reservation's signed record, echoed to the ratelimiter.
        reserved_tokens: prompt and output, when it was accepted.
        reserved_output: output, grows with extensions.
        attempt: number of the newest attempt; 0 before the first.
        sent: the newest attempt was handed to a worker.
        ever_sent: some attempt was.
        worker_id, gpu_id: of the newest attempt.
        output_tokens: seen of the newest attempt.
        cached_tokens: of its prompt, read from the cache.
        excluded: workers that failed it.
        model_version: that the newest attempt's worker serves; empty before, or unknown.
        preemptions: attempts that gave their place to a more urgent request.
    """

    arrived_us: int = 0
    accepted_us: int = 0
    queued_us: int = 0
    waiting_since_us: int = 0
    queue_us: int = 0
    first_token_us: int = 0
    ended_us: int = 0
    reservation_id: str = ""
    record: bytes = b""
    reserved_tokens: int = 0
    reserved_output: int = 0
    attempt: int = 0
    sent: bool = False
    ever_sent: bool = False
    worker_id: str = ""
    worker_address: str = ""
    gpu_id: str = ""
    output_tokens: int = 0
    cached_tokens: int = 0
    excluded: set[str] = field(default_factory=set)
    preemptions: int = 0
    model_version: str = ""

    def reserve(self, reservation: Reservation, now_us: int) -> None:
        """The ratelimiter holds its tokens: it is accepted."""
        self.accepted_us = self.waiting_since_us = now_us
        self.reservation_id = reservation.id
        self.record = reservation.record
        self.reserved_tokens = reservation.prompt_tokens + reservation.output_tokens
        self.reserved_output = reservation.output_tokens

    def begin(self, event: Dispatched) -> None:
        """A new attempt goes to its worker."""
        self.attempt = event.attempt.number
        self.worker_id = event.worker_id
        self.worker_address = event.worker_address
        self.model_version = event.model_version
        self.queue_us += event.queue_time.ToMicroseconds()
        self.output_tokens = self.cached_tokens = 0
        self.sent = self.ever_sent = True
