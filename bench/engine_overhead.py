"""What a step costs beside the model: planning, KV accounting, text, frames."""

import time
from collections.abc import Sequence

import msgspec

from bench.samples import Samples, say
from bench.workload import NULL_TOKEN_IDS, Shape, random_prompts
from weir_worker.engine.commands import Submit
from weir_worker.engine.config import NULL_MODEL, EngineConfig
from weir_worker.engine.engine import Engine
from weir_worker.engine.factory import build_engine
from weir_worker.sampling import SamplingParams

SIZES = (1, 16, 64, 256)
_PROMPT = 64
_WARM_UP = 20
_STEPS = 200
_BLOCK = 16


def measure_overhead(sizes: Sequence[int], runs: int, samples: Samples) -> None:
    """CPU microseconds of a decode step for each of its sequences, as `overhead/N`.

    The engine is the real one and runs in this thread over the model that computes nothing,
    its frames encoded as they are for the server process. CPU time of the thread, since that
    depends less on what else runs.
    """
    for _ in range(runs):
        for size in sizes:
            samples.add(f"overhead/{size}", _step_us(size) / size)
    say(f"overhead, us a sequence: {', '.join(f'{n}: {_median(samples, n)}' for n in sizes)}")


def _step_us(size: int) -> float:
    engine = _engine(size)
    steps = _WARM_UP + _STEPS
    for place, prompt in enumerate(random_prompts(Shape(size, _PROMPT, 1, NULL_TOKEN_IDS), size)):
        engine.apply(_submit(place, prompt, steps + size + 8))
    while engine.planner.pending_prefill_tokens() or engine.planner.waiting.first() is not None:
        engine.step()
    encoder = msgspec.msgpack.Encoder()
    for _ in range(_WARM_UP):
        encoder.encode(engine.step())
    start = time.thread_time()
    for _ in range(_STEPS):
        output = engine.step()
        encoder.encode(output)
    passed = time.thread_time() - start
    if len(output.deltas) != size:
        raise RuntimeError(f"a step of {size} sequences made {len(output.deltas)} tokens")
    return passed / _STEPS * 1e6


def _engine(size: int) -> Engine:
    blocks = size * (-(-(_PROMPT + _WARM_UP + _STEPS + 2 * size + 64) // _BLOCK) + 2)
    config = EngineConfig(
        model=NULL_MODEL,
        block_size=_BLOCK,
        num_blocks=blocks,
        max_running=size,
        max_step_tokens=max(512, 2 * size),
    )
    return build_engine(config).engine


def _submit(place: int, prompt: list[int], output: int) -> Submit:
    return Submit(
        request_id=f"overhead-{place}",
        attempt=1,
        tenant="bench",
        prompt_token_ids=prompt,
        max_new_tokens=output,
        sampling=SamplingParams(temperature=0.0),
        ignore_eos=True,
    )


def _median(samples: Samples, size: int) -> float | None:
    return samples.median(f"overhead/{size}")
