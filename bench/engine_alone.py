"""The engine without any service around it: the mark that the whole stack is held against."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from bench.workload import Shape, random_prompts
from weir_core.clock import SystemClock
from weir_worker.engine.client import EngineClient
from weir_worker.engine.commands import Submit
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.events import Delta, Terminal
from weir_worker.engine.launchers import ProcessLauncher
from weir_worker.sampling import SamplingParams


@asynccontextmanager
async def open_engine(config: EngineConfig) -> AsyncIterator[EngineClient]:
    """An engine in a process of its own, as the worker runs it."""
    client = EngineClient(ProcessLauncher(config), SystemClock())
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def output_tokens_per_second(engine: EngineClient, shape: Shape, seed: int) -> float:
    """Runs a closed batch of greedy requests; returns output tokens per second."""
    prompts = random_prompts(shape, seed)
    start = time.perf_counter()
    counts = await asyncio.gather(
        *(
            _generate(engine, f"{seed}-{place}", prompt, shape.output)
            for place, prompt in enumerate(prompts)
        )
    )
    return sum(counts) / (time.perf_counter() - start)


async def token_times(
    engine: EngineClient, name: str, prompt: list[int], output: int, *, shared: int = 0
) -> AsyncGenerator[float]:
    """Greedy; yields the `perf_counter` of each token. Closing the iterator aborts it.

    Args:
        engine: started.
        name: id of the request.
        prompt: token ids.
        output: tokens to generate, whatever they are.
        shared: leading prompt tokens that other requests may find in the cache.

    Raises:
        RuntimeError: the request failed.
    """
    submit = Submit(
        request_id=name,
        attempt=1,
        tenant="bench",
        prompt_token_ids=prompt,
        max_new_tokens=output,
        sampling=SamplingParams(temperature=0.0),
        tenant_prefix_tokens=shared,
        ignore_eos=True,
    )
    try:
        async for event in engine.stream(submit):
            if isinstance(event, Delta):
                now = time.perf_counter()
                for _ in event.token_ids:
                    yield now
            elif isinstance(event, Terminal) and event.failure is not None:
                raise RuntimeError(event.failure.message)
    finally:
        engine.abort(name, submit.attempt)


async def _generate(engine: EngineClient, name: str, prompt: list[int], output: int) -> int:
    tokens = 0
    async with aclosing(token_times(engine, name, prompt, output)) as times:
        async for _ in times:
            tokens += 1
    if tokens != output:
        raise RuntimeError(f"asked for {output} tokens, got {tokens}")
    return tokens
