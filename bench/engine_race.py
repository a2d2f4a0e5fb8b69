"""Our modes and the peers on the same closed batches, in turn."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol

from bench.at_rest import at_rest
from bench.engine_alone import output_tokens_per_second
from bench.engine_modes import FP32, FP32_KERNELS, INT8, KERNELS, open_mode
from bench.peers.peer_process import RUNNERS, PeerFailed, open_peer
from bench.samples import Budget, Samples, say
from bench.workload import Shape
from weir_core.errors.startup import StartupError
from weir_worker.engine.client import EngineClient

BEST_PEERS = ("openvino", "llama.cpp")
_LOAD_S = 240.0
_TURN_S = 60.0
"""That a turn may take at least, however late it was begun."""
# KV of 16 streams of 192 tokens, with room.
_KV_BYTES = 256 << 20


class Contestant(Protocol):
    """One engine, loaded."""

    name: str

    async def output_tokens_per_second(self, shape: Shape, seed: int, timeout_s: float) -> float:
        """Of a closed batch."""


class OwnEngine:
    """One of our modes."""

    def __init__(self, name: str, engine: EngineClient) -> None:
        self.name = name
        self._engine = engine

    async def output_tokens_per_second(self, shape: Shape, seed: int, timeout_s: float) -> float:
        """See `Contestant`. It is its own deadline: an engine that stands still is given up."""
        return await output_tokens_per_second(self._engine, shape, seed)


class Race:
    """Loads everyone, then measures in turn.

    Args:
        model: our model folder.
        peers: names of runners.
        shape: the many-stream shape; the other has one stream.
        samples: gets `NAME/16` and `NAME/1`, tokens/s.
    """

    def __init__(self, model: str, peers: Sequence[str], shape: Shape, samples: Samples) -> None:
        self._model = model
        self._peers = peers
        self._shapes = {"16": shape, "1": Shape(1, shape.prompt, shape.output)}
        # Not counted: memory that was not used for minutes may have gone to the disk.
        self._first = Shape(shape.streams, 32, 4)
        self._samples = samples
        self._racing: list[Contestant] = []

    async def run(self, runs: int, seconds: float) -> None:
        """At most `runs` rounds, and at least one; loading is not of the time."""
        async with AsyncExitStack() as stack:
            await self._load(stack)
            budget = Budget(seconds)
            await self._each(-1, {}, budget)
            loaded = budget.per_run(1)
            for run in range(runs):
                each = (budget.per_run(1) - loaded) / max(1, run)
                if not budget.allows(run, each):
                    say(f"race: no time for run {run + 1}")
                    return
                await self._each(run, self._shapes, budget)

    async def _load(self, stack: AsyncExitStack) -> None:
        for mode in (INT8, KERNELS, FP32, FP32_KERNELS):
            try:
                opened = open_mode(self._model, [mode], _KV_BYTES)
                _, engine = await stack.enter_async_context(opened)
            except StartupError:
                continue
            self._racing.append(OwnEngine(mode, engine))
        for runner in RUNNERS:
            if runner.name in self._peers:
                try:
                    peer = await stack.enter_async_context(open_peer(runner, _LOAD_S))
                except PeerFailed as error:
                    say(f"race: {error}")
                    continue
                self._racing.append(peer)

    async def _each(self, run: int, shapes: dict[str, Shape], budget: Budget) -> None:
        for contestant in list(self._racing):
            try:
                await at_rest()
                await self._rate(contestant, self._first, run, budget)
                for key, shape in shapes.items():
                    rate = await self._rate(contestant, shape, run, budget)
                    self._samples.add(f"{contestant.name}/{key}", rate)
                    say(f"race, run {run + 1}: {contestant.name}, {key}: {rate:.1f} tokens/s")
            except PeerFailed as error:
                say(f"race: {error}")
                self._racing.remove(contestant)

    @staticmethod
    async def _rate(contestant: Contestant, shape: Shape, run: int, budget: Budget) -> float:
        seed = 1_000 * (run + 2) + shape.streams + shape.prompt
        timeout_s = max(_TURN_S, 2 * budget.left)
        return await contestant.output_tokens_per_second(shape, seed, timeout_s)


def race_figures(samples: Samples, peers: Sequence[str]) -> dict[str, Any]:
    """The figures of the race; null where one was not measured."""
    figures: dict[str, Any] = {
        "tok_s_16": samples.median(f"{INT8}/16"),
        "tok_s_1": samples.median(f"{INT8}/1"),
        "tok_s_16_fp32": samples.median(f"{FP32}/16"),
        "tok_s_1_fp32": samples.median(f"{FP32}/1"),
        "tok_s_16_kernels": samples.median(f"{KERNELS}/16"),
        "tok_s_1_kernels": samples.median(f"{KERNELS}/1"),
        "tok_s_16_fp32_kernels": samples.median(f"{FP32_KERNELS}/16"),
        "tok_s_1_fp32_kernels": samples.median(f"{FP32_KERNELS}/1"),
        "ratio_best_peer_16": _best(samples, INT8, "16"),
        "ratio_best_peer_1": _best(samples, INT8, "1"),
        "ratio_best_peer_16_kernels": _best(samples, KERNELS, "16"),
        "ratio_best_peer_1_kernels": _best(samples, KERNELS, "1"),
        "ratio_vllm_fp32_16": samples.ratio(f"{FP32}/16", "vllm/16"),
        "ratio_vllm_fp32_16_kernels": samples.ratio(f"{FP32_KERNELS}/16", "vllm/16"),
    }
    figures["peers"] = {
        name: {f"tok_s_{key}": samples.median(f"{name}/{key}") for key in ("16", "1")}
        for name in peers
    }
    return figures


def _best(samples: Samples, mode: str, key: str) -> float | None:
    """Ours over the better of the two that may be best; null unless both were measured."""
    ratios = [samples.ratio(f"{mode}/{key}", f"{name}/{key}") for name in BEST_PEERS]
    return min((ratio for ratio in ratios if ratio), default=None) if all(ratios) else None
