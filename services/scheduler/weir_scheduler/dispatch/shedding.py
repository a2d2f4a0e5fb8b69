"""Which requests a busy pool refuses: pure functions of its saturation.

Saturation is the predicted wait of a request over the longest that it may wait
(`queue_timeout_ms`): 0 when it would be served at once, 1 when it would wait in vain. Every
curve refuses at 1. Below it a gate refuses nothing, so urgent requests queue behind all that
was let in; the two smooth curves keep room for them at the cost of the least urgent.

Sources: probabilistic shedding `p = min(k x sat^n, 1)` and priority holdback by linear ceilings
as in llm-d's flow control.
"""

import math
import zlib

from weir_scheduler.rules.shedding_rules import ShedCurve, SheddingRules

HIGHEST_PRIORITY = 100
POWER_EXPONENT = 5.0


def shed_probability(rules: SheddingRules, saturation: float, priority: int) -> float:
    """Chance of refusal of one request, 0 to 1.

    Args:
        rules: the curve and where it begins.
        saturation: 0 or more.
        priority: 0 to 100, higher is more urgent.
    """
    if saturation >= 1.0:
        return 1.0
    begin = rules.from_millis / 1000
    if rules.curve is ShedCurve.HOLDBACK:
        return 1.0 if saturation >= ceiling(begin, priority) else 0.0
    if rules.curve is ShedCurve.POWER and priority == 0 and saturation > begin:
        return power_probability((saturation - begin) / (1.0 - begin))
    return 0.0


def ceiling(begin: float, priority: int) -> float:
    """Saturation that a priority may fill: in a line from `begin` at 0 to 1 at the highest."""
    return begin + (1.0 - begin) * min(HIGHEST_PRIORITY, max(0, priority)) / HIGHEST_PRIORITY


def power_probability(saturation: float, k: float = 1.0, n: float = POWER_EXPONENT) -> float:
    """`min(k x saturation^n, 1)`."""
    return min(1.0, k * math.pow(max(0.0, saturation), n))


def sheds(rules: SheddingRules, saturation: float, priority: int, request_id: str) -> bool:
    """Whether one request is refused; the lot is drawn by its id, so that runs repeat."""
    return lot(request_id) < shed_probability(rules, saturation, priority)


def lot(request_id: str) -> float:
    """A number in [0, 1) that is the same for the same id."""
    return zlib.crc32(request_id.encode(errors="replace")) / 2**32


def calm_saturation(rules: SheddingRules, priority: int, chance: float = 0.05) -> float:
    """Saturation at which a request of that priority is refused with at most `chance`."""
    begin = rules.from_millis / 1000
    if rules.curve is ShedCurve.HOLDBACK:
        return ceiling(begin, priority)
    if rules.curve is ShedCurve.POWER and priority == 0:
        return begin + (1.0 - begin) * math.pow(chance, 1.0 / POWER_EXPONENT)
    return 1.0
