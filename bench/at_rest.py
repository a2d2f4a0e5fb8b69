"""A moment at which nothing else computes."""

import asyncio
import os
import time
from pathlib import Path

from bench.samples import say

_STAT = Path("/proc/stat")
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_S = 0.5
_IDLE_SHARE = 0.95


async def at_rest(longest_s: float = 10.0) -> None:
    """Returns once the processors have idled for half a second, or after `longest_s`.

    Whoever was measured before may spin for a while after its last answer, as vLLM does for a
    second on one core, at the cost of who comes next. Where there is no `/proc`: at once.
    """
    if not _STAT.exists():
        return
    began = time.perf_counter()
    while (share := await _idle_share()) < _IDLE_SHARE:
        if time.perf_counter() - began > longest_s:
            say(f"the processors are not at rest: idle {share:.0%} of the time")
            return


async def _idle_share() -> float:
    """Of all processors, over the next moment."""
    before, began = _idle_s(), time.perf_counter()
    await asyncio.sleep(_LOOK_S)
    return (_idle_s() - before) / (time.perf_counter() - began) / (os.cpu_count() or 1)


def _idle_s() -> float:
    return int(_STAT.read_text().split("\n", 1)[0].split()[4]) / _TICKS
