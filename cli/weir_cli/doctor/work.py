"""The steps of workers, added up."""

from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from weir.gateway.v1.history_service_pb2 import WorkerWork


class Work:
    """What some workers did; ratios are 0 where nothing was done.

    Attributes:
        known: whether anything is known of steps.
        seconds: of steps.
        rows: tokens that went through the model.
        decoded: of these, output tokens.
        recomputed: of these, computed again after a pre-emption.
        steps, evictions, preemptions, queries, hits: events and tokens.
    """

    def __init__(self, parts: Sequence[WorkerWork]) -> None:
        self._parts = parts
        self.steps = sum(part.steps for part in parts)
        self.known = self.steps > 0
        self.seconds = self._time("prefill_time") + self._time("decode_time")
        self.decoded = sum(part.decode_tokens for part in parts)
        self.rows = self.decoded + sum(part.prefill_tokens for part in parts)
        self.recomputed = sum(part.recomputed_tokens for part in parts)
        self.evictions = sum(part.evictions for part in parts)
        self.preemptions = sum(part.preemptions for part in parts)
        self.queries = sum(part.prefix_queries for part in parts)
        self.hits = sum(part.prefix_hits for part in parts)

    @property
    def step_seconds(self) -> float:
        """Of one step."""
        return self.seconds / self.steps if self.steps else 0.0

    @property
    def rows_per_step(self) -> float:
        """Tokens of one step."""
        return self.rows / self.steps if self.steps else 0.0

    @property
    def batch_size(self) -> float:
        """Sequences that one step decodes."""
        return self.decoded / self.steps if self.steps else 0.0

    @property
    def rows_per_output(self) -> float:
        """Tokens that were computed for each output token, that one included."""
        return self.rows / self.decoded if self.decoded else 0.0

    @property
    def recomputed_share(self) -> float:
        """Of the rows."""
        return self.recomputed / self.rows if self.rows else 0.0

    @property
    def foreign_share(self) -> float | None:
        """Share of the device that processes not of the worker used; None: unknown."""
        return self._share("foreign_time")

    @property
    def own_share(self) -> float | None:
        """Share of the device that the worker used; None: unknown."""
        busy, foreign = self._share("busy_time"), self._share("foreign_time")
        return None if busy is None or foreign is None else max(0.0, busy - foreign)

    @property
    def wait_per_step(self) -> float | None:
        """Seconds that the engine waits for a processor, for each step; None: unknown."""
        if not any(part.HasField("processor_wait") for part in self._parts) or not self.steps:
            return None
        return self._time("processor_wait") / self.steps

    def _share(self, name: str) -> float | None:
        known = [part for part in self._parts if part.HasField(name)]  # type: ignore[arg-type]
        whole = sum(_seconds(part.duration) for part in known)
        return sum(_seconds(getattr(part, name)) for part in known) / whole if whole else None

    def _time(self, name: str) -> float:
        return sum(_seconds(getattr(part, name)) for part in self._parts)


def _seconds(duration: Duration) -> float:
    return float(duration.ToMicroseconds() / 1e6)
