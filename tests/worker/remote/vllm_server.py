"""vLLM's gRPC contract, served by a script: letters, one token each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from smg_grpc_proto import vllm_engine_pb2 as pb
from smg_grpc_proto import vllm_engine_pb2_grpc as rpc

MODEL = "their-model"


class VllmServer(rpc.VllmEngineServicer):  # type: ignore[misc]
    """Attributes:
    requests: that came.
    cancelled: streams whose client went away.
    hold: streams wait for it before each token but the first.
    healthy: what it says of itself.
    code: answered instead of tokens, if set.
    """

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.cancelled = 0
        self.hold = asyncio.Event()
        self.hold.set()
        self.healthy = True
        self.code: grpc.StatusCode | None = None
        self.url = ""

    async def HealthCheck(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.HealthCheckResponse(healthy=self.healthy)

    async def GetModelInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.GetModelInfoResponse(served_model_name=MODEL, is_generation=True)

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.requests.append(request)
        if self.code is not None:
            await context.abort(self.code, "their words")
        prompt, most = len(request.tokenized.input_ids), request.sampling_params.max_tokens
        ids = [97 + number % 26 for number in range(most)]
        try:
            for number, token in enumerate(ids, 1):
                if number > 1:
                    await self.hold.wait()
                # As vLLM's servicer does in a stream: counts are of this chunk.
                chunk = pb.GenerateStreamChunk(
                    token_ids=[token], prompt_tokens=prompt, completion_tokens=1
                )
                yield pb.GenerateResponse(chunk=chunk)
            complete = pb.GenerateComplete(
                output_ids=ids[-1:],
                finish_reason="length",
                prompt_tokens=prompt,
                completion_tokens=1,
                cached_tokens=2,
            )
            yield pb.GenerateResponse(complete=complete)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@asynccontextmanager
async def running_vllm() -> AsyncIterator[VllmServer]:
    server, servicer = grpc.aio.server(), VllmServer()
    rpc.add_VllmEngineServicer_to_server(servicer, server)
    servicer.url = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield servicer
    finally:
        servicer.hold.set()
        await server.stop(0)
