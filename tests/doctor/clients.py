"""Load: clients of tenants each with requests of its own form."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from tests.e2e.deployment import Deployment
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import LatencySla, RequestClass
from weir.gateway.v1.inference_service_pb2 import GenerateRequest, TokenInput

if TYPE_CHECKING:
    from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceAsyncStub

Prompt = Callable[[random.Random], list[int]]

_LONGEST_S = 120.0
_REFUSED_PAUSE_S = 0.2
# Ids that every vocabulary of the tests has, and none that is special.
_TOKENS = range(32, 127)


def fresh(length: int) -> Prompt:
    """Prompts of which no two begin alike."""
    return lambda dice: dice.choices(_TOKENS, k=length)


def beginning_with(length: int, *, of: int = 1, rest: int = 30, seed: int = 7) -> Prompt:
    """Prompts that begin with one `of` some texts of `length` and go on differently."""
    texts = [fresh(length)(random.Random(seed * 1_000 + number)) for number in range(of)]
    turn = iter(range(10**9))
    return lambda dice: texts[next(turn) % of] + fresh(rest)(dice)


@dataclass(frozen=True)
class Clients:
    """Some clients of one tenant.

    Attributes:
        every_s: seconds between its requests, whether or not they are answered; 0: one after the
            other.
        offline: of the class batch, for throughput.
    """

    number: int
    prompt: Prompt
    output: int = 8
    tenant: str = "acme"
    every_s: float = 0.0
    offline: bool = False


class Running:
    """Clients that run until they are stopped.

    Attributes:
        answered: by tenant.
        refused: requests that were not answered.
    """

    def __init__(self, stack: Deployment, clients: Sequence[Clients], seed: int) -> None:
        self._stack = stack
        self._dice = random.Random(seed)
        self.answered = {one.tenant: 0 for one in clients}
        self.refused = 0
        self._tasks = [
            asyncio.create_task(self._go_on(one)) for one in clients for _ in range(one.number)
        ]

    async def stop(self) -> None:
        """Leaves in the middle of what runs."""
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, Exception):
                raise one

    async def _go_on(self, clients: Clients) -> None:
        async with self._stack.inference() as stub, asyncio.TaskGroup() as group:
            while True:
                if clients.every_s:
                    group.create_task(self._ask(stub, clients))
                    await asyncio.sleep(clients.every_s)
                else:
                    await self._ask(stub, clients)

    async def _ask(self, stub: "InferenceServiceAsyncStub", clients: Clients) -> None:
        request = GenerateRequest(
            model=self._stack.model,
            token_input=TokenInput(token_ids=clients.prompt(self._dice)),
            max_new_tokens=clients.output,
            sampling=SamplingParams(temperature=0.0, ignore_eos=True),
        )
        if clients.offline:
            setattr(request, "class", RequestClass.REQUEST_CLASS_BATCH)
            request.latency_sla = LatencySla.LATENCY_SLA_THROUGHPUT
        metadata = self._stack.metadata(clients.tenant)
        call = stub.Generate(request, metadata=metadata, timeout=_LONGEST_S)
        try:
            async for _ in call:
                pass
            self.answered[clients.tenant] += 1
        except grpc.aio.AioRpcError:
            self.refused += 1
            await asyncio.sleep(_REFUSED_PAUSE_S)
        finally:
            call.cancel()
