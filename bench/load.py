"""Load over the public gRPC door, measured at the client."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.gateway.v1.inference_service_pb2 import Finished, GenerateRequest, TokenInput
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub

REQUEST_TIMEOUT_S = 600.0


@dataclass(slots=True)
class Answer:
    """One answered request; times are seconds of `time.perf_counter`."""

    start: float
    arrivals: list[float] = field(default_factory=list)
    tokens: int = 0
    end: float = 0.0
    lifecycle: LifecycleRecord | None = None

    @property
    def ttft(self) -> float:
        """Seconds from the call to the first delta."""
        return self.arrivals[0] - self.start


class Client:
    """Calls one gateway with one key."""

    def __init__(self, channel: grpc.aio.Channel, key: str, model: str) -> None:
        self._stub = InferenceServiceStub(channel)
        self._metadata = (("authorization", f"Bearer {key}"),)
        self._model = model

    async def generate(self, prompt: Sequence[int], output: int, *, stream: bool = True) -> Answer:
        """Runs one greedy request of exactly `output` tokens."""
        request = GenerateRequest(
            model=self._model,
            token_input=TokenInput(token_ids=prompt),
            max_new_tokens=output,
            sampling=SamplingParams(temperature=0.0, ignore_eos=True),
            stream=stream,
        )
        answer = Answer(time.perf_counter())
        finished: Finished | None = None
        call = self._stub.Generate(request, metadata=self._metadata, timeout=REQUEST_TIMEOUT_S)
        async for response in call:
            event = response.WhichOneof("event")
            if event == "delta":
                answer.arrivals.append(time.perf_counter())
                answer.tokens += len(response.delta.token_ids)
            elif event == "finished":
                finished = response.finished
        answer.end = time.perf_counter()
        if finished is None or finished.usage.completion_tokens != output:
            raise RuntimeError(f"asked for {output} tokens, the answer ended with {finished}")
        answer.lifecycle = finished.lifecycle
        return answer


@asynccontextmanager
async def open_client(target: str, key: str, model: str) -> AsyncIterator[Client]:
    """A client on a channel of its own."""
    async with grpc.aio.insecure_channel(target) as channel:
        yield Client(channel, key, model)


async def closed_batch(client: Client, prompts: Sequence[Sequence[int]], output: int) -> float:
    """Starts all prompts at once; returns output tokens per second until the last one ends."""
    start = time.perf_counter()
    answers = await asyncio.gather(*(client.generate(prompt, output) for prompt in prompts))
    return sum(answer.tokens for answer in answers) / (time.perf_counter() - start)


async def closed_loop(
    client: Client,
    clients: int,
    seconds: float,
    prompt: Sequence[int],
    output: int,
    *,
    stream: bool,
) -> list[Answer]:
    """So many clients, each asking again as soon as it is answered, for so many seconds."""
    stop = time.perf_counter() + seconds

    async def one() -> list[Answer]:
        answers = []
        while time.perf_counter() < stop:
            answers.append(await client.generate(prompt, output, stream=stream))
        return answers

    return [
        answer
        for answers in await asyncio.gather(*(one() for _ in range(clients)))
        for answer in answers
    ]
