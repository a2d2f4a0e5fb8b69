"""What is known of the load of one model's workers at one moment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalingSignals:
    """One reading; counts, tokens and microseconds.

    Attributes:
        measured_us: moment of the reading, on the axis of `Autoscaler.decide`.
        known: False while what is here cannot be relied on, such as after a start, before the
            workers have registered.
        workers: those that take work or will soon: registered, reporting, not draining.
        draining: those that end what they have and take nothing new.
        queued: requests that wait for a place; those that wait for their own tenant's cap are
            not among them, since more workers would not help them.
        queued_tokens: summed estimated cost of these.
        capped: requests that wait for their own tenant's cap.
        queue_p95_us: 95th percentile of the interactive waits that ended within `wait_window_us`.
        wait_window_us: see there.
        oldest_wait_us: age of the oldest wait, interactive, of those in `queued`.
        running: answers that are made at once, over `workers`.
        tokens_in_flight: summed estimated cost of what is dispatched to `workers`.
        slots: answers that `workers` may make at once in all.
        token_slots: summed estimated cost that `workers` may have in all.
        kv_use: part of their KV blocks that requests hold, 0 to 1; None when none has a cache.
        predicted_wait_us: of a request that arrives now, at the present speed; None while
            nothing moves.
        startup_us: the longest start of a worker that was seen lately; 0 when unknown.
    """

    measured_us: int
    known: bool = True
    workers: int = 0
    draining: int = 0
    queued: int = 0
    queued_tokens: int = 0
    capped: int = 0
    queue_p95_us: int = 0
    wait_window_us: int = 30_000_000
    oldest_wait_us: int = 0
    running: int = 0
    tokens_in_flight: int = 0
    slots: int = 0
    token_slots: int = 0
    kv_use: float | None = None
    predicted_wait_us: int | None = None
    startup_us: int = 0

    @property
    def wait_us(self) -> int:
        """The queue time that counts: of those that have waited, or of one that still does."""
        return max(self.queue_p95_us, self.oldest_wait_us)

    @property
    def active(self) -> bool:
        """Whether there is anything to do."""
        return self.queued > 0 or self.running > 0
