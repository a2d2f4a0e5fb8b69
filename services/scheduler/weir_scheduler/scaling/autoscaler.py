"""Signals to a number of workers, with hysteresis.

After three that are in use: the stable and the panic window are those of Knative's KPA, the
tolerance band and the limits of speed those of Kubernetes' HPA and AIBrix's APA, the two
stabilisation windows the HPA's.
"""

import math

from weir_scheduler.scaling.demand import Capacity, Demand, capacity_of, demand_of
from weir_scheduler.scaling.history import History
from weir_scheduler.scaling.recommendation import Recommendation, ScalingReason
from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_scheduler.scaling.signals import ScalingSignals

_EPSILON = 1e-9


class Autoscaler:
    """Decides for the workers of one model. Pure: no clock, no I/O.

    Args:
        rules: bounds, targets, hysteresis.
    """

    def __init__(self, rules: ScalingRules) -> None:
        self._rules = rules
        self._history = History(rules)
        self._wanted: int | None = None
        self._blind = True
        self._capacity: Capacity | None = None
        self._burst_until_us: int | None = None
        self._grew_us: int | None = None
        self._shrank_us: int | None = None
        self._complete_us: int | None = None
        """Since when all that was asked for is there; None while some are missing."""

    @property
    def rules(self) -> ScalingRules:
        """Those in force."""
        return self._rules

    def use(self, rules: ScalingRules) -> None:
        """From now on these rules; averages begin anew if they differ."""
        if rules != self._rules:
            self._rules = rules
            self._history = History(rules)
            self._blind = True

    def decide(self, signals: ScalingSignals, now_us: int) -> Recommendation:
        """How many workers there should be; to be called every second or few.

        Args:
            signals: the latest reading.
            now_us: on the same axis as `signals.measured_us`; never goes back.
        """
        if not signals.known or now_us - signals.measured_us > self._rules.max_age_us:
            self._blind = True
            stay = self._rules.clamp(signals.workers if self._wanted is None else self._wanted)
            return Recommendation(stay, float(stay), ScalingReason.UNKNOWN)
        wanted = self._see(signals, now_us)
        demand = self._measure(signals, wanted, now_us)
        workers, reason = self._judge(signals, wanted, now_us)
        if workers > wanted:
            self._grew_us, self._complete_us = now_us, None
        self._wanted = workers
        return Recommendation(workers, self._history.stable.mean(), reason, demand.driver)

    def _see(self, signals: ScalingSignals, now_us: int) -> int:
        """What is decided so far: at first, and after a time without signals, what is there."""
        if self._blind:
            self._blind = False
            self._wanted = self._rules.clamp(max(self._wanted or 0, signals.workers))
            self._history.begin(now_us, self._wanted)
        return self._rules.clamp(self._wanted or 0)

    def _measure(self, signals: ScalingSignals, wanted: int, now_us: int) -> Demand:
        self._capacity = capacity_of(signals) or self._capacity
        if self._complete_us is None and self._all_started(signals, wanted, now_us):
            self._complete_us = now_us
        wait_us = self._wait_us(signals, now_us)
        demand = demand_of(signals, self._rules, self._capacity, wait_us)
        self._history.load(now_us, demand.workers)
        return demand

    def _judge(
        self, signals: ScalingSignals, wanted: int, now_us: int
    ) -> tuple[int, ScalingReason]:
        history, burst = self._history, self._in_burst(signals, wanted, now_us)
        load = history.stable.mean()
        if burst:
            load = max(load, history.burst.mean(), wanted)
        asked = self._outside_band(load, wanted)
        bounded = self._rules.clamp(asked)
        history.asked(now_us, bounded, wanted, self._startup_us(signals))
        if bounded > wanted:
            return self._upwards(bounded, wanted, burst=burst)
        if bounded < wanted:
            return self._downwards(wanted, now_us)
        if asked != bounded:
            return wanted, ScalingReason.BOUND
        return wanted, ScalingReason.BURST if burst else ScalingReason.STEADY

    def _outside_band(self, load: float, wanted: int) -> int:
        """Workers for a load; those of now while it is within the band around their target."""
        rules = self._rules
        low, high = wanted * (1 - rules.down_tolerance), wanted * (1 + rules.up_tolerance)
        if wanted and low - _EPSILON <= load <= high + _EPSILON:
            return wanted
        return math.ceil(load - _EPSILON)

    def _in_burst(self, signals: ScalingSignals, wanted: int, now_us: int) -> bool:
        there = max(1, min(signals.workers, wanted))
        if self._history.burst.mean() >= there * self._rules.panic_threshold:
            self._burst_until_us = now_us + self._rules.stable_us
        elif self._burst_until_us is not None and now_us >= self._burst_until_us:
            self._burst_until_us = None
        return self._burst_until_us is not None

    def _upwards(self, asked: int, wanted: int, *, burst: bool) -> tuple[int, ScalingReason]:
        if not burst:
            asked = min(asked, int(self._history.asked_up.lowest()))
        if asked <= wanted:
            return wanted, ScalingReason.STABILISING
        base = int(self._history.decided_up.lowest())
        most = max(math.ceil(base * self._rules.max_up_factor - _EPSILON), base + 1)
        if most < asked:
            return max(wanted, most), ScalingReason.RATE
        return asked, ScalingReason.BURST if burst else ScalingReason.UP

    def _downwards(self, wanted: int, now_us: int) -> tuple[int, ScalingReason]:
        asked = int(self._history.asked_down.highest())
        if asked >= wanted:
            return wanted, ScalingReason.STABILISING
        rules = self._rules
        if self._shrank_us is not None and now_us - self._shrank_us < rules.down_period_us:
            return wanted, ScalingReason.RATE
        self._shrank_us = now_us
        least = min(math.floor(wanted / rules.max_down_factor + _EPSILON), wanted - 1)
        return (least, ScalingReason.RATE) if least > asked else (asked, ScalingReason.DOWN)

    def _all_started(self, signals: ScalingSignals, wanted: int, now_us: int) -> bool:
        if signals.workers >= wanted or self._grew_us is None:
            return True
        # Some never came: what is there must be judged as it is.
        return now_us - self._grew_us > 2 * self._startup_us(signals)

    def _wait_us(self, signals: ScalingSignals, now_us: int) -> int:
        """Queue time that the workers of now answer for.

        While some still start, it only shows that they are missing, which is known; and
        afterwards what was waited before says nothing about them.
        """
        if self._grew_us is None:
            return signals.wait_us
        if self._complete_us is None:
            return 0
        since_us = now_us - self._complete_us
        p95_us = signals.queue_p95_us if since_us >= signals.wait_window_us else 0
        return max(p95_us, min(signals.oldest_wait_us, since_us))

    def _startup_us(self, signals: ScalingSignals) -> int:
        return signals.startup_us or self._rules.startup_us
