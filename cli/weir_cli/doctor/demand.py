"""Whether more is asked for than before, and by how much."""

import math

from weir_cli.doctor.statistics import SURE
from weir_cli.doctor.window import Window

MORE_AT_ONCE = 1.5
"""Times as many requests that live at once: clients who wait for their answers send no more of
them when there are more clients."""
AS_MUCH = 0.9
"""Of the former output: where less is made, more live at once because each takes longer."""


def demand_growth(before: Window, after: Window) -> float:
    """Times that more is asked for; 1 where it may be chance, or is for want of service."""
    old, new = before.total("arrivals"), after.total("arrivals")
    if not (before.seconds and after.seconds and old and new):
        return 1.0
    times = after.arrival_rate / before.arrival_rate
    # Of two independent counts; they come in bursts, which doubles the spread of pure chance.
    doubt = 2 * SURE * math.sqrt(1 / new + 1 / old)
    if math.log(times) > doubt:
        return times
    at_once = after.in_flight / before.in_flight if before.in_flight else 1.0
    served = after.output_rate >= AS_MUCH * before.output_rate and times >= 1.0
    # Where each takes longer and as many come, more live at once; fewer come only from clients
    # who wait for their answers, of whom there are more then.
    waited_for = times <= AS_MUCH and not after.refused
    return at_once if (served or waited_for) and at_once >= MORE_AT_ONCE else 1.0
