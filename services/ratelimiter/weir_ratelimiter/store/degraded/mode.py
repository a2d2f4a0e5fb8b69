"""Which account decides, and for how long in all it was not the shared one."""

from weir_core.telemetry.logs import get_logger

_log = get_logger(__name__)


class Mode:
    """Keeps the time and says each change once in the log.

    Times are milliseconds of any clock that only runs.
    """

    def __init__(self) -> None:
        self._away_since_ms: int | None = None
        self._away_before_ms = 0

    @property
    def degraded(self) -> bool:
        """Whether the local account decides."""
        return self._away_since_ms is not None

    def away(self, now_ms: int, cause: str, replicas: int) -> None:
        """The shared store is not asked any more."""
        if self._away_since_ms is None:
            self._away_since_ms = now_ms
            _log.warning("store_away", cause=cause, share=f"1/{replicas}")

    def back(self, now_ms: int, pending: int) -> None:
        """The shared store answers again; `pending` decisions are still to be told to it."""
        if self._away_since_ms is not None:
            away_ms = now_ms - self._away_since_ms
            self._away_before_ms += away_ms
            self._away_since_ms = None
            _log.info("store_back", away_s=away_ms / 1_000, to_replay=pending)

    def away_ms(self, now_ms: int) -> int:
        """For how long the local account has decided; 0 while the shared one does."""
        return 0 if self._away_since_ms is None else now_ms - self._away_since_ms

    def degraded_s(self, now_ms: int) -> float:
        """Seconds in which the local account decided, since the start of the process."""
        return (self._away_before_ms + self.away_ms(now_ms)) / 1_000
