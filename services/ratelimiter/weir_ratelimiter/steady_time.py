"""Time that starts at the wall clock and then only runs."""

from weir_core.clock import Clock


class SteadyTime:
    """Unix milliseconds that no step of the wall clock disturbs.

    An hour's step would otherwise end every lease at once, or hold them for an hour. The wall
    clock is read once, at the start; what a step makes wrong is the label, not the duration.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_us = clock.now_us() - clock.monotonic_us()

    def now_ms(self) -> int:
        """Milliseconds, Unix at the start of the process."""
        return (self._clock.monotonic_us() + self._offset_us) // 1_000
