"""Client of the gateway's public door."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

import grpc

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.gateway.v1.inference_service_pb2 import (
    EmbedInput,
    EmbedRequest,
    GenerateRequest,
    GetRequestRequest,
    ListModelsRequest,
    ModelInfo,
    TokenizeRequest,
)
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub
from weir.gateway.v1.insight_service_pb2 import ExplainRequestRequest, Explanation
from weir.gateway.v1.insight_service_pb2_grpc import InsightServiceStub
from weir_client.answer import Answer
from weir_client.connection import Connection
from weir_client.embeddings import Embeddings
from weir_client.idempotency import AutomaticKeys
from weir_client.jobs import Jobs
from weir_client.prefixes import Prefixes
from weir_client.request import GenerateOptions, Message, build_request, chat_input
from weir_client.retry import RetryPolicy
from weir_client.sessions import Sessions
from weir_client.stream import AnswerStream


class AsyncClient:
    """A connection to a gateway. Use one for the life of a program; it multiplexes.

    Args:
        target: `host:port` of the gateway's gRPC door.
        api_key: key of the tenant's user.
        credentials: TLS credentials, such as `grpc.ssl_channel_credentials()`; None for plain
            text (a local or private network).
        retry: when calls are tried again.
        timeout_s: default deadline of a call with one response, retries included.
        generate_timeout_s: default deadline of a whole answer, retries included.
        automatic_keys: `complete` gives its request an idempotency key, so that an attempt whose
            answer was lost is not run and charged twice; the gateway then finishes it even if
            the caller leaves. Without effect where calls are not retried.

    Attributes:
        sessions: sessions of the tenant.
        jobs: offline work of the tenant.
        prefixes: beginnings of prompts that the tenant's requests share.
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
        automatic_keys: bool = True,
    ) -> None:
        retry = retry or RetryPolicy()
        self._connection = Connection(
            target, api_key, credentials=credentials, retry=retry, timeout_s=timeout_s
        )
        self._stub = InferenceServiceStub(self._connection.channel)
        self._insight = InsightServiceStub(self._connection.channel)
        self._generate_timeout_s = generate_timeout_s
        self._keys = AutomaticKeys(wanted=automatic_keys and retry.attempts > 1)
        self.sessions = Sessions(self._connection)
        self.jobs = Jobs(self._connection)
        self.prefixes = Prefixes(self._connection)

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
        return self._answer(request, timeout_s)

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
        request = build_request(
            model,
            messages=messages,
            prompt=prompt,
            max_new_tokens=max_new_tokens,
            stream=False,
            options=options,
        )
        return await self._answer(request, timeout_s, keyed=self._keys.give(request)).collect()

    async def list_models(self) -> list[ModelInfo]:
        """The models that the key may use."""
        response = await self._connection.call(self._stub.ListModels, ListModelsRequest())
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
        return list((await self._connection.call(self._stub.Tokenize, request)).token_ids)

    async def embed(self, model: str, texts: Iterable[str]) -> Embeddings:
        """One vector of Euclidean length 1 for each text, in order."""
        inputs = [EmbedInput(text=text) for text in texts]
        request = EmbedRequest(model=model, inputs=inputs)
        response = await self._connection.call(self._stub.Embed, request)
        vectors = [tuple(embedding.values) for embedding in response.embeddings]
        return Embeddings(tuple(vectors), response.usage, response.model)

    async def get_request(self, request_id: str) -> LifecycleRecord:
        """Life-cycle record of a request of the tenant, running or lately ended."""
        request = GetRequestRequest(request_id=request_id)
        return (await self._connection.call(self._stub.GetRequest, request)).lifecycle

    async def explain(self, request_id: str) -> Explanation:
        """What happened to a request of the tenant, and why: `sentences` say it in words.

        Args:
            request_id: of an answer, or of an error that was raised.
        """
        request = ExplainRequestRequest(request_id=request_id)
        return (await self._connection.call(self._insight.ExplainRequest, request)).explanation

    async def close(self) -> None:
        """Cancels what still runs and closes the connection."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _answer(
        self, request: GenerateRequest, timeout_s: float | None, *, keyed: bool = False
    ) -> AnswerStream:
        connection = self._connection
        longest_s = self._generate_timeout_s if timeout_s is None else timeout_s
        return AnswerStream(
            lambda left_s: self._stub.Generate(
                request, metadata=connection.metadata, timeout=left_s
            ),
            lambda: connection.attempts(longest_s),
            lambda error: keyed and self._keys.take_back(request, error),
        )
