"""`make bench-seeing`: requests a second with nothing seen, by default, and with every trace.

The load is that of `make bench-gateway`: a null worker, all limits on. How far the simulator and
an outside client agree with what is measured is asked of `weir calibrate` and
`bench.outside_client`. Prints progress on stderr and, as its last line on stdout, one JSON object.
"""

import argparse
import asyncio
import json
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench.gateway.target import MeasurementFailed, measure
from bench.samples import Samples, say
from bench.seeing.agreement import Agreement, agreement
from bench.seeing.variant import ALL, DEFAULT, OFF, VARIANTS, RunningVariant, running

_CLIENTS = 16
_STEP_US = 500
_EXPORTED_S = 2.5


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: runs of each variant, their length and that of the warm-up, seconds."""

    runs: int
    seconds: float
    warm_s: float


_FULL = Effort(runs=5, seconds=8.0, warm_s=3.0)
_QUICK = Effort(runs=1, seconds=1.5, warm_s=0.5)


async def main() -> None:
    """Measures the variants in turn, then asks the others."""
    parser = argparse.ArgumentParser(description="What it costs to see")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    parser.add_argument(
        "--traces-only", action="store_true", help="no calibration and no outside client"
    )
    args = parser.parse_args()
    samples = await _measure_all(_QUICK if args.quick else _FULL)
    agreed = Agreement() if args.quick or args.traces_only else await agreement(say)
    print(json.dumps(figures_of(samples, agreed) | ({"quick": True} if args.quick else {})))


async def _measure_all(effort: Effort) -> Samples:
    os.environ["WEIR_WORKER__NULL_STEP_US"] = str(_STEP_US)
    samples = Samples()
    async with AsyncExitStack() as stacks:
        variants = [await stacks.enter_async_context(running(variant)) for variant in VARIANTS]
        for variant in variants:
            await _run(variant, Samples(), effort.warm_s)
        for number in range(effort.runs):
            # Each round begins with another, so that none is always the first after a pause.
            for at in range(len(variants)):
                await _run(variants[(at + number) % len(variants)], samples, effort.seconds)
            told = [f"{v.name} {samples.median(f'rps {v.name}')}" for v in VARIANTS]
            say(f"run {number + 1}, requests/s, medians so far: {', '.join(told)}")
    return samples


async def _run(running: RunningVariant, samples: Samples, seconds: float) -> None:
    """One run of one variant. Raises MeasurementFailed where it was not what it is for."""
    before, cpu_s = await running.receiver.received(), running.cpu_seconds()
    measured = await measure(
        running.target, clients=_CLIENTS, seconds=seconds, tokens=1, stream=False
    )
    cpu_s = running.cpu_seconds() - cpu_s
    # What is still to be exported belongs to this run, and must not disturb the next.
    await asyncio.sleep(_EXPORTED_S)
    after, requests = await running.receiver.received(), measured.rps * seconds
    name, share = running.variant.name, (after.traces - before.traces) / requests
    samples.add(f"rps {name}", measured.rps)
    samples.add(f"cpu_us {name}", cpu_s / requests * 1e6)
    samples.add(f"traces {name}", share)
    samples.add(f"spans {name}", (after.spans - before.spans) / requests)
    if seconds >= _FULL.seconds and not _fits(running, share):
        raise MeasurementFailed(f"{name}: {share:.3f} traces came for each request")


def _fits(running: RunningVariant, share: float) -> bool:
    # A full queue drops spans, and tells so: of every trace some are missing then.
    least = running.variant.least if running.variant is not ALL else 0.05
    return least <= share <= running.variant.most


def figures_of(samples: Samples, agreed: Agreement) -> dict[str, object]:
    """What is printed."""
    ratio = samples.ratio(f"rps {DEFAULT.name}", f"rps {OFF.name}", 4)
    return {
        **{f"rps_{variant.name}": samples.median(f"rps {variant.name}") for variant in VARIANTS},
        "overhead_default": None if ratio is None else round(1 - ratio, 4),
        **agreed.figures(),
        **{
            f"{figure}_{variant.name}": samples.median(f"{figure} {variant.name}", 3)
            for figure in ("cpu_us", "traces", "spans")
            for variant in VARIANTS
        },
        "runs": samples.runs(),
    }


if __name__ == "__main__":
    asyncio.run(main())
