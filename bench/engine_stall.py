"""What a long prompt does to streams that are being decoded."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from bench.engine_alone import token_times
from bench.samples import Budget, Samples, say
from bench.workload import Shape, random_prompts
from weir_worker.engine.client import EngineClient

_PROMPT = 64
# More than any stream can make while it is watched; they are aborted then.
_ENDLESS = 2_000
_FIRST_TOKENS = 8
_START_S = 60.0


@dataclass(frozen=True, slots=True)
class StallSetting:
    """How many streams, how long the prompt, and seconds watched before it arrives."""

    streams: int = 8
    prompt: int = 6_000
    before_s: float = 5.0


@dataclass(slots=True)
class _Stream:
    """The moments of one stream's tokens; `decodes` is set once there are some."""

    times: list[float] = field(default_factory=list)
    decodes: asyncio.Event = field(default_factory=asyncio.Event)

    def gaps(self, start: float, end: float) -> list[float]:
        """Between tokens, of which the later one came in this time."""
        return [after - before for before, after in pairwise(self.times) if start < after <= end]


async def measure_stall(
    engine: EngineClient, setting: StallSetting, runs: int, budget: Budget, samples: Samples
) -> None:
    """`stall/ratio`, `stall/p99`, `stall/control` and `stall/ttft`.

    The ratio is the worst gap between tokens of any stream from the prompt's arrival to its
    first token, over their median gap in the seconds before it arrived; `p99` has the 99th
    percentile of the gaps in place of the worst, and `control` the worst of before the prompt:
    what the machine does to streams by itself.
    """
    for run in range(runs):
        if not budget.allows(run, budget.per_run(run)):
            say(f"stall: no time for run {run + 1}")
            return
        await _measure(engine, setting, samples)
        say(
            f"stall, run {run + 1}: ratio {samples.median('stall/ratio')}, "
            f"first token of the long prompt after {samples.median('stall/ttft')} s"
        )


async def _measure(engine: EngineClient, setting: StallSetting, samples: Samples) -> None:
    seed = time.time_ns()
    prompts = random_prompts(Shape(setting.streams, _PROMPT, 1), seed)
    long_prompt = random_prompts(Shape(1, setting.prompt, 1), seed + 1)[0]
    streams = [_Stream() for _ in prompts]
    decoding = [
        asyncio.create_task(_decode(engine, f"stall-{seed}-{place}", prompt, stream))
        for place, (prompt, stream) in enumerate(zip(prompts, streams, strict=True))
    ]
    try:
        async with asyncio.timeout(_START_S):
            await asyncio.gather(*(stream.decodes.wait() for stream in streams))
        await asyncio.sleep(setting.before_s)
        arrival = time.perf_counter()
        async with aclosing(token_times(engine, f"long-{seed}", long_prompt, 1)) as times:
            first = await anext(times)
    finally:
        for task in decoding:
            task.cancel()
        await asyncio.gather(*decoding, return_exceptions=True)
    before = [g for s in streams for g in s.gaps(arrival - setting.before_s, arrival)]
    # A stream that got nothing at all meanwhile has its gap too.
    worst = max(max([*stream.gaps(arrival, first), first - stream.times[-1]]) for stream in streams)
    samples.add("stall/ratio", worst / median(before))
    while_long = sorted(g for s in streams for g in s.gaps(arrival, first))
    samples.add("stall/p99", while_long[len(while_long) * 99 // 100] / median(before))
    samples.add("stall/control", max(before) / median(before))
    samples.add("stall/ttft", first - arrival)


async def _decode(engine: EngineClient, name: str, prompt: list[int], stream: _Stream) -> None:
    async with aclosing(token_times(engine, name, prompt, _ENDLESS)) as times:
        async for moment in times:
            stream.times.append(moment)
            if len(stream.times) == _FIRST_TOKENS:
                stream.decodes.set()
