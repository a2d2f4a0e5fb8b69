"""Client of the gateway's public door."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar, Unpack

import grpc

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.gateway.v1.inference_service_pb2 import (
    GetRequestRequest,
    ListModelsRequest,
    ModelInfo,
    TokenizeRequest,
)
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub
from weir_client.answer import Answer
from weir_client.errors import WeirClientError, from_rpc_error
from weir_client.request import GenerateOptions, Message, build_request, chat_input
from weir_client.retry import RetryPolicy
from weir_client.stream import AnswerStream

T = TypeVar("T")

_MAX_MESSAGE_BYTES = 8 * 1024 * 1024
# Keepalive notices a dead server within 40 s; without the last two a reader that stops lets the
# server run megabytes ahead, so that its worker never slows down for it.
_OPTIONS: list[tuple[str, int]] = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 32 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 65_536),
]


class AsyncClient:
    """A connection to a gateway. Use one for the life of a program; it multiplexes.

    Args:
        target: `host:port` of the gateway's gRPC door.
        api_key: key of the tenant's user.
        credentials: TLS credentials; None for plain text (a local or private network).
        retry: when calls are tried again.
        timeout_s: default deadline of a call with one response.
        generate_timeout_s: default deadline of a whole answer, retries included.
    """

    def __init__(
        self,
        target: str,
        api_key: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        retry: RetryPolicy | None = None,
        timeout_s: float = 30.0,
        generate_timeout_s: float = 600.0,
    ) -> None:
        self._channel = (
            grpc.aio.insecure_channel(target, options=_OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options=_OPTIONS)
        )
        self._stub = InferenceServiceStub(self._channel)
        self._metadata = (("authorization", f"Bearer {api_key}"),)
        self._retry = retry or RetryPolicy()
        self._timeout_s = timeout_s
        self._generate_timeout_s = generate_timeout_s

    def generate(
        self,
        model: str,
        *,
        max_new_tokens: int,
        messages: Iterable[Message] | None = None,
        prompt: str | None = None,
        stream: bool = True,
        timeout_s: float | None = None,
        **options: Unpack[GenerateOptions],
    ) -> AnswerStream:
        """Prepares one request; it is sent when the answer is first read.

        Args:
            model: name or alias.
            max_new_tokens: tokens to generate at most, 1 or more.
            messages: turns of a conversation; or
            prompt: text to continue, used as it is.
            stream: False asks for the whole text in one piece.
            timeout_s: deadline of the whole answer.
            **options: see GenerateOptions.
        """
        request = build_request(
            model,
            messages=messages,
            prompt=prompt,
            max_new_tokens=max_new_tokens,
            stream=stream,
            options=options,
        )
        return AnswerStream(
            lambda left_s: self._stub.Generate(request, metadata=self._metadata, timeout=left_s),
            self._retry,
            self._generate_timeout_s if timeout_s is None else timeout_s,
        )

    async def complete(
        self,
        model: str,
        *,
        max_new_tokens: int,
        messages: Iterable[Message] | None = None,
        prompt: str | None = None,
        timeout_s: float | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Answer:
        """As `generate`, not streamed."""
        answer = self.generate(
            model,
            max_new_tokens=max_new_tokens,
            messages=messages,
            prompt=prompt,
            stream=False,
            timeout_s=timeout_s,
            **options,
        )
        return await answer.collect()

    async def list_models(self) -> list[ModelInfo]:
        """The models that the key may use."""
        response = await self._call(self._stub.ListModels, ListModelsRequest())
        return list(response.models)

    async def tokenize(
        self, model: str, *, messages: Iterable[Message] | None = None, prompt: str | None = None
    ) -> list[int]:
        """Token ids of what `generate` would send to the model."""
        if (messages is None) == (prompt is None):
            raise ValueError("give exactly one of messages and prompt")
        request = TokenizeRequest(model=model)
        if prompt is not None:
            request.prompt = prompt
        else:
            request.chat.CopyFrom(chat_input(messages or ()))
        return list((await self._call(self._stub.Tokenize, request)).token_ids)

    async def get_request(self, request_id: str) -> LifecycleRecord:
        """Life-cycle record of a request of the tenant, running or lately ended."""
        request = GetRequestRequest(request_id=request_id)
        return (await self._call(self._stub.GetRequest, request)).lifecycle

    async def close(self) -> None:
        """Cancels what still runs and closes the connection."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _call(self, method: Callable[..., Awaitable[T]], request: object) -> T:
        attempt = 1
        while True:
            try:
                return await method(request, metadata=self._metadata, timeout=self._timeout_s)
            except grpc.aio.AioRpcError as failure:
                error: WeirClientError = from_rpc_error(failure)
            delay = self._retry.delay_s(attempt, error)
            if delay is None:
                raise error
            await asyncio.sleep(delay)
            attempt += 1
