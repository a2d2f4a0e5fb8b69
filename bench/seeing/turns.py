"""Measures the variants in turn: short turns, and each round in the order opposite to the last.

A machine whose clock falls under load, or that others share, is another one a minute later. So
what is compared stands side by side, and is compared round by round.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench.gateway.target import MeasurementFailed, measure
from bench.samples import Samples, say
from bench.seeing.variant import ALL, DEFAULT, OFF, VARIANTS, RunningVariant, running

_CLIENTS = 16
_STEP_US = 500
_EXPORTED_S = 1.5
_FEWEST_REQUESTS = 300


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds of all variants, length of a turn and of the warm-up, s."""

    rounds: int
    seconds: float
    warm_s: float


FULL = Effort(rounds=16, seconds=3.0, warm_s=4.0)
QUICK = Effort(rounds=1, seconds=1.5, warm_s=0.5)


async def measured_in_turn(effort: Effort) -> Samples:
    """Starts a stack for each variant, which all stay up, and measures them.

    Raises:
        MeasurementFailed: a variant did not do what it is for.
    """
    os.environ["WEIR_WORKER__NULL_STEP_US"] = str(_STEP_US)
    samples = Samples()
    async with AsyncExitStack() as stacks:
        variants = [await stacks.enter_async_context(running(variant)) for variant in VARIANTS]
        for variant in variants:
            await _turn(variant, Samples(), effort.warm_s)
        for number in range(effort.rounds):
            for variant in variants if number % 2 else reversed(variants):
                await _turn(variant, samples, effort.seconds)
            _tell(number, samples)
    return samples


async def _turn(running: RunningVariant, samples: Samples, seconds: float) -> None:
    """One turn of one variant."""
    before, cpu_s = await running.receiver.received(), running.cpu_seconds()
    measured = await measure(
        running.target, clients=_CLIENTS, seconds=seconds, tokens=1, stream=False
    )
    # What is still to be exported belongs to this turn, and must not disturb the next.
    await asyncio.sleep(_EXPORTED_S)
    cpu_s = running.cpu_seconds() - cpu_s
    after, requests = await running.receiver.received(), measured.requests
    name, share = running.variant.name, (after.traces - before.traces) / requests
    samples.add(f"rps {name}", measured.rps)
    samples.add(f"cpu_us {name}", cpu_s / requests * 1e6)
    samples.add(f"traces {name}", share)
    samples.add(f"spans {name}", (after.spans - before.spans) / requests)
    if requests >= _FEWEST_REQUESTS and not _fits(running, share):
        raise MeasurementFailed(f"{name}: {share:.3f} traces came for each request")


def _fits(running: RunningVariant, share: float) -> bool:
    # A full queue drops spans, and tells so: of every trace some are missing then.
    least = running.variant.least if running.variant is not ALL else 0.05
    return least <= share <= running.variant.most


def _tell(number: int, samples: Samples) -> None:
    told = ", ".join(
        f"{v.name} {samples.median(f'rps {v.name}')} ({samples.median(f'cpu_us {v.name}', 0)} us)"
        for v in (OFF, DEFAULT, ALL)
    )
    say(f"round {number + 1}, requests/s and CPU, medians so far: {told}")
