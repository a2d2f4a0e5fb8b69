"""Sends the loads of a calibration and measures them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256

import grpc

from weir_cli.calibration.measurement import (
    Measurement,
    MemoryPeak,
    decode_stretch,
    served,
)
from weir_cli.calibration.plan import Cell
from weir_cli.calibration.processors import others_share, processor_times
from weir_cli.calibration.site import Caller, Site, workers_of
from weir_cli.errors import CommandError
from weir_cli.load.grpc_target import GrpcTarget
from weir_cli.load.http_target import Endpoint
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.open_loop import OpenLoop
from weir_cli.load.prompts import IdPrompts, Prompt, Prompts
from weir_cli.load.target import Asked
from weir_client import AsyncClient, WeirClientError

_TENANT = "calibration"
_ANSWER_S = 300.0
_LOOK_S = 0.5
_MOST_REQUESTS = 50_000
# Everyday questions: what a model answers them with says how much of its bound an answer uses.
_QUESTIONS = (
    "What is the capital of Norway, and what is it known for?",
    "Write two sentences about the sea.",
    "Explain how a bicycle keeps its balance.",
    "List three uses of copper.",
    "How do I make tea?",
    "Give me a short poem about winter.",
    "What does an operating system do?",
    "Why is the sky blue?",
)
_TEXT = (
    "The quick brown fox jumps over the lazy dog while many other animals look at it. 0123456789"
)


class Meter:
    """One door of a stack, and looks at its workers meanwhile.

    Args:
        site: where.
        ids: token ids that prompts are made of.
    """

    def __init__(self, site: Site, ids: Sequence[int]) -> None:
        self._site = site
        self._ids = ids

    async def closed(
        self, name: str, cell: Cell, streams: int, *, seconds: float = 0.0, requests: int = 0
    ) -> Measurement:
        """So many streams of equal requests, each going on at once, for a time or a number."""
        count = requests or _MOST_REQUESTS
        load = [LoadRequest(at, 0.0, _TENANT, cell.prompt, cell.output) for at in range(count)]
        async with self._loop(name, streams) as loop:
            return await self._measure(name, loop, load, seconds or float("inf"))

    async def offered(self, name: str, load: Sequence[LoadRequest]) -> Measurement:
        """A load at its own moments."""
        mine = [replace(one, tenant=_TENANT) for one in load]
        async with self._loop(name, 0) as loop:
            return await self._measure(name, loop, mine, float("inf"))

    async def natural(self, name: str, bound: int) -> Measurement:
        """Questions, answered until the model itself ends, within `bound` tokens."""
        load = [LoadRequest(at, 0.0, _TENANT, 1, bound) for at in range(len(_QUESTIONS))]
        async with self._loop(name, len(_QUESTIONS) // 2, natural=True) as loop:
            return await self._measure(name, loop, load, float("inf"))

    async def _measure(
        self, name: str, loop: OpenLoop, load: Sequence[LoadRequest], stop_s: float
    ) -> Measurement:
        watch = WorkerWatch(self._site)
        begin = processor_times() if self._site.started_here else None
        watching = asyncio.create_task(watch.run())
        try:
            offered = await loop.run(load, stop_s=stop_s)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        others = others_share(begin, processor_times())
        await watch.look()
        measurement = Measurement(
            name, offered.duration_s, served(offered), decode_stretch(offered.exchanges),
            watch.peak, others,
        )  # fmt: skip
        if not measurement.answered:
            failures = [one.failure for one in offered.exchanges if one.failure]
            told = failures[0] if failures else None
            raise CommandError(
                f"{name}: no request was answered"
                + (f": {told.kind} {told.message}" if told else "")
            )
        return measurement

    @asynccontextmanager
    async def _loop(self, name: str, most: int, natural: bool = False) -> AsyncIterator[OpenLoop]:
        caller = self._site.caller
        asked = Asked(caller.model, {_TENANT: caller.key}, ignore_eos=not natural)
        channel = grpc.aio.insecure_channel(caller.address)
        target = GrpcTarget(channel, Endpoint.CHAT, asked, _ANSWER_S)
        # Of every load its own prompts: none finds another's in the cache.
        prompts: Prompts = _Questions() if natural else IdPrompts(_seed(name), self._ids)
        try:
            yield OpenLoop(target, prompts, most)
        finally:
            await target.close()


class WorkerWatch:
    """The most that the workers reported while it ran."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.peak = MemoryPeak()

    async def run(self) -> None:
        """Looks now and then, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Looks once; a scheduler that does not answer is asked again the next time."""
        try:
            views = await workers_of(self._site.door, self._site.caller.model)
        except CommandError:
            return
        loads = [view.load for view in views]
        self.peak = MemoryPeak(
            max(self.peak.held_blocks, sum(one.held_kv_blocks for one in loads)),
            max(self.peak.kv_bytes, sum(one.kv_bytes_used for one in loads)),
            max(self.peak.device_bytes, sum(one.device_memory_used_bytes for one in loads)),
        )


@dataclass(frozen=True, slots=True)
class _Questions:
    """See `Prompts`: everyday questions, whatever length is wanted."""

    def make(self, tokens: int, index: int) -> Prompt:
        """The question of this place."""
        return _QUESTIONS[index % len(_QUESTIONS)]


async def ids_of(caller: Caller) -> tuple[int, ...]:
    """Token ids that the model's tokenizer surely has. Raises CommandError."""
    client = AsyncClient(caller.address, caller.key)
    try:
        return tuple(sorted(set(await client.tokenize(caller.model, prompt=_TEXT))))
    except WeirClientError as error:
        raise CommandError(f"{caller.address}: {error}") from None
    finally:
        await client.close()


def _seed(name: str) -> int:
    """Of the whole name: loads whose names end alike would find each other's prompts."""
    return int.from_bytes(sha256(name.encode()).digest()[:6], "big")
