"""The gateway's gRPC door."""

import time
from typing import Any

import grpc

from weir.common.v1.sampling_pb2 import SamplingParams
from weir.gateway.v1.inference_service_pb2 import (
    ChatInput,
    ChatMessage,
    Finished,
    GenerateRequest,
    TokenInput,
)
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub
from weir_cli.load.exchange import Exchange, Failure
from weir_cli.load.http_target import Endpoint
from weir_cli.load.prompts import Prompt
from weir_cli.load.target import Asked
from weir_core.errors import Reason
from weir_core.errors.exceptions import LimitExceeded
from weir_core.errors.status import from_rpc_error

_MOST_TOLD = 300


class GrpcTarget:
    """Calls `InferenceService.Generate`.

    Args:
        channel: to the gateway; closed with this.
        endpoint: texts go through the chat template, or as they are; ids as they are.
        asked: of every request.
        timeout_s: of a whole answer.
        stream: token by token; else in one piece.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        endpoint: Endpoint,
        asked: Asked,
        timeout_s: float,
        *,
        stream: bool = True,
    ) -> None:
        self._channel = channel
        self._stub = InferenceServiceStub(channel)
        self._endpoint = endpoint
        self._asked = asked
        self._timeout_s = timeout_s
        self._stream = stream

    async def close(self) -> None:
        """Ends the channel."""
        await self._channel.close()

    async def send(self, exchange: Exchange, prompt: Prompt) -> None:
        """See `Target`."""
        key = self._asked.keys.get(exchange.request.tenant, "")
        metadata = (("authorization", f"Bearer {key}"),) if key else ()
        request = self._request(exchange, prompt)
        exchange.sent_s = time.monotonic()
        finished: Finished | None = None
        try:
            async for response in self._stub.Generate(
                request, metadata=metadata, timeout=self._timeout_s
            ):
                event = response.WhichOneof("event")
                if event == "delta":
                    if tokens := len(response.delta.token_ids):
                        exchange.arrivals.append((time.monotonic(), tokens))
                elif event == "finished":
                    finished = response.finished
        except grpc.aio.AioRpcError as error:
            exchange.failure = _failure(error)
        exchange.end_s = time.monotonic()
        if finished is not None:
            exchange.prompt_tokens = finished.usage.prompt_tokens
            exchange.output_tokens = finished.usage.completion_tokens
            exchange.record = finished.lifecycle
        elif exchange.failure is None:
            exchange.failure = Failure("broken stream", "the answer ended without its end")

    def _request(self, exchange: Exchange, prompt: Prompt) -> GenerateRequest:
        given: dict[str, Any]
        if not isinstance(prompt, str):
            given = {"token_input": TokenInput(token_ids=prompt)}
        elif self._endpoint is Endpoint.CHAT:
            given = {"chat": ChatInput(messages=[ChatMessage(role="user", content=prompt)])}
        else:
            given = {"prompt": prompt}
        return GenerateRequest(
            model=self._asked.model,
            max_new_tokens=exchange.request.output_tokens,
            sampling=SamplingParams(
                temperature=self._asked.temperature, ignore_eos=self._asked.ignore_eos
            ),
            stream=self._stream,
            **given,
        )


def _failure(error: grpc.aio.AioRpcError) -> Failure:
    told = from_rpc_error(error, unavailable_as=Reason.INTERNAL, peer="the gateway")
    by = str(told.reason)
    if isinstance(told, LimitExceeded) and told.binding is not None:
        by = told.binding.limit_id
    return Failure(f"{told.wire.http} {by}", told.message[:_MOST_TOLD])
