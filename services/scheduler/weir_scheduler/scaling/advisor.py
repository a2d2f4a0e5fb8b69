"""An autoscaler for every pool, and what it said last."""

from collections.abc import Callable
from dataclasses import dataclass

from weir_scheduler.scaling.autoscaler import Autoscaler
from weir_scheduler.scaling.recommendation import Recommendation
from weir_scheduler.scaling.scaling_key import ScalingKey
from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_scheduler.scaling.signals import ScalingSignals


@dataclass(frozen=True, slots=True)
class Advice:
    """Signals of one pool, the rules by which they were judged, and the answer."""

    key: ScalingKey
    signals: ScalingSignals
    rules: ScalingRules
    recommendation: Recommendation


class Advisor:
    """Judges every pool whenever it is asked to; keeps the last answers.

    Args:
        rules_of: rules of a pool as they are now.
    """

    def __init__(self, rules_of: Callable[[ScalingKey], ScalingRules]) -> None:
        self._rules_of = rules_of
        self._autoscalers: dict[ScalingKey, Autoscaler] = {}
        self._last: dict[ScalingKey, Advice] = {}

    @property
    def last(self) -> list[Advice]:
        """The last answer for every pool, by model and pool."""
        return [self._last[key] for key in sorted(self._last)]

    def judge(self, readings: dict[ScalingKey, ScalingSignals], now_us: int) -> None:
        """Takes a reading of every pool; one that is not among them is forgotten."""
        for key in set(self._last) - set(readings):
            del self._last[key], self._autoscalers[key]
        for key, signals in readings.items():
            self._last[key] = self._judge(key, signals, now_us)

    def _judge(self, key: ScalingKey, signals: ScalingSignals, now_us: int) -> Advice:
        rules = self._rules_of(key)
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None:
            autoscaler = self._autoscalers[key] = Autoscaler(rules)
        autoscaler.use(rules)
        return Advice(key, signals, rules, autoscaler.decide(signals, now_us))
