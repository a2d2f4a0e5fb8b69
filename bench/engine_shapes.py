"""The engine alone on other shapes: many streams, long prompts, long answers, long contexts."""

import asyncio
import time
from contextlib import aclosing

from bench.engine_alone import output_tokens_per_second, token_times
from bench.samples import Budget, Samples, say
from bench.workload import Shape, random_prompts
from weir_worker.engine.client import EngineClient

SHAPES = {
    "64x128/64": Shape(64, 128, 64),
    "16x1500/32": Shape(16, 1500, 32),
    "16x32/256": Shape(16, 32, 256),
}
CONTEXTS = (128, 512, 1_000, 2_000, 4_000, 8_000)
_DECODED = 24
_PREFIX = 1_000
_OWN = 24
_SHARERS = 4


async def measure_shapes(
    engine: EngineClient, shapes: dict[str, Shape], runs: int, budget: Budget, samples: Samples
) -> None:
    """Output tokens/s of closed batches, as `tok_s/SHAPE`: each once before any is repeated."""
    for run in range(runs):
        for name, shape in shapes.items():
            if not budget.allows(run, _seconds(samples, name, shape)):
                say(f"shapes: no time for run {run + 1} of {name}")
                continue
            rate = await output_tokens_per_second(engine, shape, seed=7_000 + run)
            samples.add(f"tok_s/{name}", rate)
            say(f"shapes, run {run + 1}: {name}: {rate:.1f} tokens/s")


async def measure_contexts(
    engine: EngineClient, contexts: tuple[int, ...], runs: int, budget: Budget, samples: Samples
) -> None:
    """Decode tokens/s of one stream after so many tokens, as `context/N`.

    One text is computed once: each length finds the shorter one in the cache.
    """
    prompt = random_prompts(Shape(1, max(contexts), 1), seed=time.time_ns())[0]
    for run in range(runs):
        for context in contexts:
            if not budget.allows(run):
                return
            times = [
                moment
                async for moment in token_times(
                    engine, f"{context}-{run}", prompt[:context], _DECODED, shared=context
                )
            ]
            samples.add(f"context/{context}", (len(times) - 1) / (times[-1] - times[0]))
    told = [f"{context}: {samples.median(f'context/{context}')}" for context in contexts]
    say(f"contexts, tokens/s: {', '.join(told)}")


async def measure_prefix(engine: EngineClient, runs: int, budget: Budget, samples: Samples) -> None:
    """Time to prefill prompts cold, and those that share a known prefix: `prefix/cold`, `/warm`.

    Prompts are of one length, sent together; each makes one token. A prefix that others are
    to find is computed before, not counted.
    """
    for run in range(runs):
        if not budget.allows(run, budget.per_run(run)):
            say(f"prefix: no time for run {run + 1}")
            return
        shape = Shape(_SHARERS, _PREFIX + _OWN, 1)
        cold = random_prompts(shape, seed=time.time_ns())
        warm = [cold[0][:_PREFIX] + ids[_PREFIX:] for ids in random_prompts(shape, seed=run)]
        samples.add("prefix/cold", await _prefill_s(engine, f"cold-{run}", cold))
        samples.add("prefix/warm", await _prefill_s(engine, f"warm-{run}", warm))
        say(f"prefix, run {run + 1}: {samples.ratio('prefix/cold', 'prefix/warm')}")


async def _prefill_s(engine: EngineClient, name: str, prompts: list[list[int]]) -> float:
    """Until the last of them has its token."""
    start = time.perf_counter()
    ends = await asyncio.gather(
        *(_first(engine, f"{name}-{place}", prompt) for place, prompt in enumerate(prompts))
    )
    return max(ends) - start


async def _first(engine: EngineClient, name: str, prompt: list[int]) -> float:
    async with aclosing(token_times(engine, name, prompt, 1, shared=_PREFIX)) as times:
        return await anext(times)


def _seconds(samples: Samples, name: str, shape: Shape) -> float:
    rate = samples.median(f"tok_s/{name}")
    return shape.streams * shape.output / rate if rate else 0.0
