"""`make bench-stack`: what the services cost beside the engine (figures: bench/README.md).

Prints progress on stderr and, as its last line on stdout, one JSON object.
"""

import asyncio
import json
import sys
import time
from statistics import median
from typing import Any

from bench.deployment import deployment, resident_megabytes
from bench.engine_alone import open_engine, output_tokens_per_second
from bench.load import Client, closed_batch, closed_loop
from bench.workload import NULL_TOKEN_IDS, Shape, percentile, random_prompts
from weir_cli.stack.served_model import choose_model
from weir_worker.engine.client import EngineClient
from weir_worker.engine.config import EngineConfig

_SHAPE = Shape(streams=16, prompt=128, output=64)
_RUNS = 3
_CLIENTS = 16
_LOOP_S = 5.0
_STREAMED_TOKENS = 512
_TTFT_SAMPLES = 200


async def main() -> None:
    """Measures with the null model, then with the default model."""
    figures: dict[str, Any] = {}
    figures.update(await _services_alone())
    figures.update(await _with_the_model())
    print(json.dumps(figures))


async def _services_alone() -> dict[str, Any]:
    """Everything but the model: the null model answers with a token a step at once."""
    shape = Shape(_CLIENTS, 16, 1, NULL_TOKEN_IDS)
    prompt = random_prompts(shape, seed=1)[0]
    async with deployment(null=True) as (stack, client), _null_engine() as engine:
        await closed_loop(client, _CLIENTS, 1.0, prompt, 1, stream=False)
        rates, token_rates, added = [], [], []
        for run in range(_RUNS):
            rates.append(await _requests_per_second(client, prompt))
            prompts = random_prompts(shape, seed=run)
            token_rates.append(await closed_batch(client, prompts, _STREAMED_TOKENS))
            added += await _added_ttft_ms(client, engine, prompt)
            _say(
                f"null model, run {run + 1}: {rates[-1]:.0f} requests/s, "
                f"{token_rates[-1]:.0f} tokens/s"
            )
        memory = {name: round(resident_megabytes(pid), 1) for name, pid in stack.pids.items()}
    return {
        "rps_null_worker": round(median(rates), 1),
        "tokens_s_null_worker": round(median(token_rates), 1),
        "ttft_added_ms_p50": round(percentile(added, 0.5), 2),
        "ttft_added_ms_p99": round(percentile(added, 0.99), 2),
        "rss_mb_null": memory,
    }


async def _with_the_model() -> dict[str, Any]:
    """The default model in the default mode, through the stack and alone, in turn."""
    model = await choose_model(None, False, _say)
    through, alone = [], []
    memory: dict[str, float] = {}
    for run in range(_RUNS):
        async with deployment(null=False) as (stack, client):
            await closed_batch(client, random_prompts(_SHAPE, seed=1_000 + run), 8)
            prompts = random_prompts(_SHAPE, seed=2_000 + run)
            through.append(await closed_batch(client, prompts, _SHAPE.output))
            memory = {name: round(resident_megabytes(pid), 1) for name, pid in stack.pids.items()}
        async with open_engine(EngineConfig(model=model.worker_model)) as engine:
            warm_up = Shape(_SHAPE.streams, _SHAPE.prompt, 8)
            await output_tokens_per_second(engine, warm_up, seed=1_000 + run)
            alone.append(await output_tokens_per_second(engine, _SHAPE, seed=2_000 + run))
        _say(
            f"model, run {run + 1}: {through[-1]:.1f} tokens/s through the stack, "
            f"{alone[-1]:.1f} by the engine alone"
        )
    return {
        "tok_s_16": round(median(through), 1),
        "tok_s_16_fp32": None,  # the default mode of a model with a record of its quality is int8
        "tok_s_16_engine_alone": round(median(alone), 1),
        "ratio_engine_16": round(median(through) / median(alone), 3),
        "rss_mb": memory,
    }


def _null_engine() -> Any:
    return open_engine(EngineConfig(model="null"))


async def _requests_per_second(client: Client, prompt: list[int]) -> float:
    return await closed_loop(client, _CLIENTS, _LOOP_S, prompt, 1, stream=False)


async def _added_ttft_ms(client: Client, engine: EngineClient, prompt: list[int]) -> list[float]:
    """Time to the first token through the stack, less that of the engine alone, one by one."""
    shape = Shape(1, len(prompt), 1, NULL_TOKEN_IDS)
    engine_ms = []
    for seed in range(20):
        start = time.perf_counter()
        await output_tokens_per_second(engine, shape, seed=10_000_000 + time.monotonic_ns() + seed)
        engine_ms.append((time.perf_counter() - start) * 1e3)
    base = median(engine_ms)
    answers = [await client.generate(prompt, 1) for _ in range(_TTFT_SAMPLES // _RUNS)]
    return [(answer.ttft_s or 0.0) * 1e3 - base for answer in answers]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
