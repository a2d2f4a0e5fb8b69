"""Streams of both doors, and what their clients saw."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import grpc
import httpx2

from tests.e2e.deployment import Deployment
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.gateway.v1.inference_service_pb2 import GenerateRequest, TokenInput

LONGEST_S = 60.0


@dataclass
class Seen:
    """What the client of one stream has seen so far.

    Attributes:
        ids: tokens in the order in which they came; not those of the HTTP door.
        code: of the error that ended it; None while it runs and when it was answered.
        record: of an answer.
    """

    tenant: str
    request_id: str = ""
    tokens: int = 0
    ids: list[int] = field(default_factory=list)
    code: grpc.StatusCode | None = None
    message: str = ""
    record: LifecycleRecord | None = None
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0

    @property
    def running(self) -> bool:
        return self.tokens > 0 and not self.ended


def request_of(stack: Deployment, prompt: Sequence[int], output: int) -> GenerateRequest:
    return GenerateRequest(
        model=stack.model,
        token_input=TokenInput(token_ids=prompt),
        max_new_tokens=output,
        sampling=SamplingParams(temperature=0.0, ignore_eos=True),
        stream=True,
    )


async def stream(
    stack: Deployment,
    seen: Seen,
    prompt: Sequence[int],
    output: int,
    *,
    leave: Callable[[Seen], bool] = lambda _: False,
    timeout_s: float = LONGEST_S,
) -> None:
    """Reads one stream to its end, or until `leave` says so after a message; then it cancels."""
    request = request_of(stack, prompt, output)
    async with stack.inference() as stub:
        call = stub.Generate(request, metadata=stack.metadata(seen.tenant), timeout=timeout_s)
        try:
            async for response in call:
                seen.request_id = seen.request_id or response.accepted.request_id
                seen.tokens += len(response.delta.token_ids)
                seen.ids.extend(response.delta.token_ids)
                if response.HasField("finished"):
                    seen.record = response.finished.lifecycle
                if leave(seen):
                    break
        except grpc.aio.AioRpcError as error:
            seen.code, seen.message = error.code(), error.details() or ""
        finally:
            call.cancel()
            seen.ended = time.monotonic()


async def http_stream(
    stack: Deployment,
    seen: Seen,
    prompt: Sequence[int],
    output: int,
    *,
    leave: Callable[[Seen], bool] = lambda _: False,
) -> None:
    """As `stream`, at the HTTP door; leaving closes the connection.

    A token of the model that computes nothing is one character.
    """
    body = {
        "model": stack.model,
        "prompt": list(prompt),
        "max_tokens": output,
        "ignore_eos": True,
        "stream": True,
    }
    headers = {"authorization": f"Bearer {stack.secret(seen.tenant)}"}
    url = f"{stack.base_url}/completions"
    try:
        async with (
            httpx2.AsyncClient(timeout=LONGEST_S) as client,
            client.stream("POST", url, json=body, headers=headers) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            seen.request_id = answer.headers["x-request-id"]
            if leave(seen):
                return
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    seen.tokens += sum(len(choice["text"]) for choice in choices)
                    if leave(seen):
                        return
    finally:
        seen.ended = time.monotonic()


class Load:
    """Clients that stream one answer after the other, to one tenant each."""

    def __init__(self, stack: Deployment, tenants: Sequence[str]) -> None:
        self._stack = stack
        self._tenants = tenants
        self._tasks: list[asyncio.Task[None]] = []
        self._going = True
        self.seen: list[Seen] = []

    @property
    def running(self) -> int:
        """Streams in the middle of their answer."""
        return sum(seen.running for seen in self.seen)

    def start(self, clients: int, *, prompt: int, output: int) -> None:
        """Begins; every answer has `output` tokens."""
        self._going = True
        self._tasks = [
            asyncio.create_task(self._client(number, prompt, output)) for number in range(clients)
        ]

    async def finish(self) -> None:
        """Lets every client end the stream that it has, and begin none."""
        self._going = False
        await asyncio.gather(*self._tasks)

    async def _client(self, number: int, prompt: int, output: int) -> None:
        while self._going:
            seen = Seen(self._tenants[number % len(self._tenants)])
            self.seen.append(seen)
            await stream(self._stack, seen, [10 + number] * prompt, output)
            if seen.code is not None:
                await asyncio.sleep(0.1)
