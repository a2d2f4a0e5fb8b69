"""`make bench-engine`: the engine alone, and its peers in turn (figures: bench/README.md).

Prints progress on stderr and, as its last line on stdout, one JSON object. Parts:

    race      tokens/s of 128/64 at 16 and 1 streams, our modes and the peers
    quality   how far each is from fp32
    stall     a long prompt beside streams
    shapes    other shapes of closed batches
    prefix    a shared prefix against cold prompts
    contexts  decode speed by context
    overhead  a step's cost beside the model
"""

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from bench.engine_modes import FASTEST, open_mode
from bench.engine_overhead import SIZES, measure_overhead
from bench.engine_quality import measure_quality, quality_figures
from bench.engine_race import Race, race_figures
from bench.engine_shapes import (
    CONTEXTS,
    SHAPES,
    measure_contexts,
    measure_prefix,
    measure_shapes,
)
from bench.engine_stall import StallSetting, measure_stall
from bench.peers.peer_process import RUNNERS
from bench.samples import Budget, Samples, say
from bench.workload import Shape
from weir_cli.stack.served_model import choose_model
from weir_core.errors.startup import StartupError
from weir_worker.engine.client import EngineClient

_DEFAULT_PEERS = ("openvino", "llama.cpp", "vllm")
_KV_BYTES = 2 << 30
# Part -> share of the whole time.
_SHARES = {
    "race": 0.52,
    "quality": 0.12,
    "stall": 0.1,
    "prefix": 0.04,
    "contexts": 0.06,
    "overhead": 0.02,
    "shapes": 0.14,
}
_ONE_ENGINE = ("stall", "prefix", "contexts", "shapes")


class EngineBench:
    """The parts that were asked for, one after another; what fails leaves its figures null."""

    def __init__(self, options: argparse.Namespace, model: str) -> None:
        self.samples = Samples()
        self.fastest: str | None = None
        self._options = options
        self._model = model
        quick = options.quick
        self._race_shape = Shape(4, 32, 8) if quick else Shape(16, 128, 64)
        self._shapes = {n: Shape(4, 16, 4) for n in SHAPES} if quick else SHAPES
        self._contexts = (64, 128) if quick else CONTEXTS
        self._stall = StallSetting(4, 600, 1.0) if quick else StallSetting()

    async def run(self) -> None:
        """Measure."""
        parts: dict[str, Callable[[Budget], Awaitable[None]]] = {
            "race": self._run_race,
            "quality": self._run_quality,
        }
        for name, part in parts.items():
            await self._contained(name, part)
        if any(name in self._options.parts for name in _ONE_ENGINE):
            await self._with_one_engine()
        await self._contained("overhead", self._run_overhead)

    async def _with_one_engine(self) -> None:
        try:
            async with open_mode(self._model, FASTEST, _KV_BYTES) as (self.fastest, engine):
                say(f"stall, prefix, contexts and shapes: {self.fastest}")
                for name in _ONE_ENGINE:
                    await self._contained(name, self._of_engine(name, engine))
        except StartupError as error:
            say(f"not measured: {error}")

    def _of_engine(self, name: str, engine: EngineClient) -> Callable[[Budget], Awaitable[None]]:
        runs, samples = self._options.runs, self.samples

        async def part(budget: Budget) -> None:
            match name:
                case "stall":
                    await measure_stall(engine, self._stall, runs, budget, samples)
                case "prefix":
                    await measure_prefix(engine, runs, budget, samples)
                case "contexts":
                    await measure_contexts(engine, self._contexts, runs, budget, samples)
                case _:
                    await measure_shapes(engine, self._shapes, runs, budget, samples)

        return part

    async def _run_race(self, budget: Budget) -> None:
        race = Race(self._model, self._options.peers, self._race_shape, self.samples)
        await race.run(self._options.runs, budget.left)

    async def _run_quality(self, budget: Budget) -> None:
        await measure_quality(self._model, self._options.peers, self.samples, budget)

    async def _run_overhead(self, budget: Budget) -> None:
        sizes = SIZES[:2] if self._options.quick else SIZES
        await asyncio.to_thread(measure_overhead, sizes, self._options.runs, self.samples)

    async def _contained(self, name: str, part: Callable[[Budget], Awaitable[None]]) -> None:
        """One part within its time: a run is begun only while it lasts, and ended at thrice."""
        if name not in self._options.parts:
            return
        seconds = _SHARES[name] * self._options.minutes * 60
        say(f"{name}: {seconds:.0f} s")
        try:
            async with asyncio.timeout(3 * seconds):
                await part(Budget(seconds))
        except TimeoutError:
            say(f"{name}: ended after {3 * seconds:.0f} s")
        except Exception as error:
            say(f"{name}: failed: {type(error).__name__}: {error}")


def _figures(bench: EngineBench, peers: list[str]) -> dict[str, Any]:
    samples = bench.samples
    figures = race_figures(samples, peers)
    quality = quality_figures(samples, peers)
    for name, told in quality.pop("peers").items():
        figures["peers"][name] |= told
    return figures | {
        "stall_ratio": samples.median("stall/ratio"),
        "stall_p99_ratio": samples.median("stall/p99"),
        "stall_control_ratio": samples.median("stall/control"),
        "long_ttft_s": samples.median("stall/ttft"),
        "prefix_speedup": samples.ratio("prefix/cold", "prefix/warm"),
        "tok_s": {name: samples.median(f"tok_s/{name}") for name in SHAPES},
        "tok_s_by_context": {str(n): samples.median(f"context/{n}") for n in CONTEXTS},
        "step_overhead_us_per_seq": {str(n): samples.median(f"overhead/{n}") for n in SIZES},
        **quality,
        "mode_of_one_engine": bench.fastest,
        "runs": samples.runs(),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the engine and its peers")
    parser.add_argument("--parts", nargs="+", choices=list(_SHARES), default=list(_SHARES))
    parser.add_argument("--runs", type=int, default=3, help="of each figure (default 3)")
    parser.add_argument("--minutes", type=float, default=12.0, help="for all parts together")
    known = [runner.name for runner in RUNNERS]
    parser.add_argument("--peers", nargs="*", choices=known, default=list(_DEFAULT_PEERS))
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    options = parser.parse_args()
    if options.runs < 1 or options.minutes <= 0:
        parser.error("--runs must be at least 1 and --minutes above 0")
    return options


async def main() -> None:
    """Run and print."""
    options = _options()
    one, five, _ = os.getloadavg()
    say(f"load average {one:.1f} (5 minutes: {five:.1f}), {os.cpu_count()} CPUs")
    model = await choose_model(None, False, say)
    bench = EngineBench(options, model.worker_model)
    await bench.run()
    # Small sizes are no figures: whoever reads the line must see that.
    told = {"quick": True} if options.quick else {}
    print(json.dumps(told | _figures(bench, options.peers)))


if __name__ == "__main__":
    asyncio.run(main())
