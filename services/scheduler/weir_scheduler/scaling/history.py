"""What an autoscaler remembers, in windows of its rules."""

from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_scheduler.scaling.window import Window


class History:
    """Loads, and numbers of workers that were asked for and decided.

    Attributes:
        stable: load, over the stable window.
        burst: load, over the panic window.
        asked_up: workers asked for, over the window of growing.
        asked_down: likewise of shrinking.
        decided_up: workers decided, over the period of the limit of growing.
    """

    def __init__(self, rules: ScalingRules) -> None:
        self.stable = Window(rules.stable_us)
        self.burst = Window(rules.panic_us)
        self.asked_up = Window(rules.up_window_us)
        self.asked_down = Window(rules.down_window_us)
        self.decided_up = Window(rules.up_period_us)

    def begin(self, now_us: int, workers: int) -> None:
        """So many are there: fewer are asked for only after a whole window, as at any time."""
        self.asked_down.add(now_us, workers)

    def load(self, now_us: int, workers: float) -> None:
        """What the signals ask for."""
        self.stable.add(now_us, workers)
        self.burst.add(now_us, workers)

    def asked(self, now_us: int, asked: int, wanted: int, startup_us: int) -> None:
        """What is asked for now, while `wanted` are decided.

        A worker that takes long to start is not given up sooner than it could be back.
        """
        if startup_us > self.asked_down.span_us:
            self.asked_down = Window(startup_us)
            self.asked_down.add(now_us, wanted)
        for window in (self.asked_up, self.asked_down):
            window.add(now_us, asked)
        self.decided_up.add(now_us, wanted)
