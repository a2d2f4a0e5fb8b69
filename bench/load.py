"""Closed loads over the public gRPC door, by the generator of `weir bench`."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc

from weir_cli.load.exchange import Exchange
from weir_cli.load.grpc_target import GrpcTarget
from weir_cli.load.http_target import Endpoint
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.open_loop import Offered, OpenLoop
from weir_cli.load.prompts import Prompt
from weir_cli.load.target import Asked

REQUEST_TIMEOUT_S = 600.0
_TENANT = "bench"
_MOST_A_SECOND = 10_000


class RequestFailed(Exception):
    """A request was refused, or not answered in full."""


class Client:
    """Calls one gateway with one key."""

    def __init__(self, channel: grpc.aio.Channel, key: str, model: str) -> None:
        asked = Asked(model, {_TENANT: key})
        self._targets = {
            stream: GrpcTarget(
                channel, Endpoint.COMPLETIONS, asked, REQUEST_TIMEOUT_S, stream=stream
            )
            for stream in (True, False)
        }

    async def generate(
        self, prompt: Sequence[int], output: int, *, stream: bool = True
    ) -> Exchange:
        """Runs one greedy request of exactly `output` tokens. Raises RequestFailed."""
        request = LoadRequest(0, 0.0, _TENANT, len(prompt), output)
        exchange = Exchange(request, time.monotonic())
        await self._targets[stream].send(exchange, prompt)
        return _whole(exchange)

    async def run(
        self,
        prompts: Sequence[Sequence[int]],
        output: int,
        requests: int,
        at_once: int,
        *,
        stream: bool = True,
        stop_s: float = float("inf"),
    ) -> Offered:
        """Sends so many requests, some at once, in turns of the prompts. Raises RequestFailed."""
        load = [
            LoadRequest(at, 0.0, _TENANT, len(prompts[at % len(prompts)]), output)
            for at in range(requests)
        ]
        offered = await OpenLoop(self._targets[stream], _Given(prompts), at_once).run(
            load, stop_s=stop_s
        )
        for exchange in offered.exchanges:
            _whole(exchange)
        return offered


class _Given:
    """See `Prompts`: the same ones in turns."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        self._prompts = prompts

    def make(self, tokens: int, index: int) -> Prompt:
        """The prompt of this place."""
        return self._prompts[index % len(self._prompts)]


@asynccontextmanager
async def open_client(target: str, key: str, model: str) -> AsyncIterator[Client]:
    """A client on a channel of its own."""
    async with grpc.aio.insecure_channel(target) as channel:
        yield Client(channel, key, model)


async def closed_batch(client: Client, prompts: Sequence[Sequence[int]], output: int) -> float:
    """Starts all prompts at once; returns output tokens per second until the last one ends."""
    offered = await client.run(prompts, output, len(prompts), len(prompts))
    return sum(one.output_tokens for one in offered.exchanges) / offered.duration_s


async def closed_loop(
    client: Client,
    clients: int,
    seconds: float,
    prompt: Sequence[int],
    output: int,
    *,
    stream: bool,
) -> float:
    """So many clients, each asking again as soon as it is answered; returns answers a second."""
    most = round(seconds * _MOST_A_SECOND)
    offered = await client.run([prompt], output, most, clients, stream=stream, stop_s=seconds)
    return len(offered.exchanges) / offered.duration_s


def _whole(exchange: Exchange) -> Exchange:
    if exchange.failure is not None:
        raise RequestFailed(f"{exchange.failure.kind}: {exchange.failure.message}")
    if exchange.output_tokens != exchange.request.output_tokens:
        raise RequestFailed(
            f"asked for {exchange.request.output_tokens} tokens, got {exchange.output_tokens}"
        )
    return exchange
