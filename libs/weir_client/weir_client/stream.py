"""An answer as it arrives."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

import grpc

from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import Usage
from weir.gateway.v1.inference_service_pb2 import (
    Accepted,
    Finished,
    GenerateRequest,
    GenerateResponse,
)
from weir_client.answer import Answer
from weir_client.attempts import Attempts
from weir_client.choice import Choice
from weir_client.errors import CallCancelled, ServerError, WeirClientError, from_rpc_error

Call = grpc.aio.UnaryStreamCall[GenerateRequest, GenerateResponse]


class AnswerStream:
    """Iterate for the text; afterwards read `usage` and `finish_reason`.

    Of several answers (`n`) that is the text of the first; `responses` has them all.

    `aclose` and the end of `async with` cancel a request that still runs: the server stops the
    work and charges what ran. Iterating raises WeirClientError's subclasses.

    Args:
        open_call: sends the request; its argument is the time that it may take, seconds.
        attempts: begins them when the answer is first read.
        amend: changes the request so that an error cannot come again; whether it did.
    """

    def __init__(
        self,
        open_call: Callable[[float], Call],
        attempts: Callable[[], Attempts],
        amend: Callable[[WeirClientError], bool],
    ) -> None:
        self._open_call = open_call
        self._attempts = attempts
        self._amend = amend
        self._call: Call | None = None
        self.accepted: Accepted | None = None
        self.finished: Finished | None = None

    @property
    def request_id(self) -> str:
        """Id of the request; empty until it is accepted."""
        return self.accepted.request_id if self.accepted else ""

    @property
    def usage(self) -> Usage | None:
        """Tokens, as charged; None until the end."""
        return self.finished.usage if self.finished else None

    @property
    def finish_reason(self) -> str:
        """`stop`, `length` or `abort`; empty until the end."""
        if self.finished is None:
            return ""
        return _word(self.finished.finish_reason)

    async def __aiter__(self) -> AsyncIterator[str]:
        async for response in self.responses():
            if response.HasField("delta") and response.delta.text and not response.delta.choice:
                yield response.delta.text

    async def responses(self) -> AsyncIterator[GenerateResponse]:
        """Every message as it came, the life-cycle events included."""
        try:
            response = await self._first()
            while response is not None:
                self._note(response)
                yield response
                response = await self._next()
        finally:
            await self.aclose()
        if self.finished is None:
            raise ServerError(grpc.StatusCode.DATA_LOSS, "the answer ended without its last record")

    async def collect(self) -> Answer:
        """Reads to the end and returns the whole answer."""
        choices = [Choice()]
        async for response in self.responses():
            if response.HasField("delta"):
                while len(choices) <= response.delta.choice:
                    choices.append(Choice())
                choices[response.delta.choice].add(response.delta)
        accepted, finished = self.accepted or Accepted(), self.finished or Finished()
        ends = [end.finish_reason for end in finished.choices] or [finished.finish_reason]
        choices.extend(Choice() for _ in ends[len(choices) :])
        for choice, reason in zip(choices, ends, strict=False):
            choice.finish_reason = _word(reason)
        return Answer(
            text=choices[0].text,
            finish_reason=self.finish_reason,
            usage=finished.usage,
            request_id=self.request_id,
            model=accepted.model,
            lifecycle=finished.lifecycle,
            degradations=tuple(accepted.degradations),
            replayed=accepted.replayed,
            choices=tuple(choices),
        )

    async def aclose(self) -> None:
        """Cancels the request if it still runs."""
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _first(self) -> GenerateResponse | None:
        attempts = self._attempts()
        while True:
            self._call = self._open_call(attempts.begin())
            try:
                response = await self._next()
            except WeirClientError as error:
                failure = error
            else:
                attempts.succeeded()
                return response
            if self._amend(failure):
                attempts.uncount()
            else:
                await attempts.wait_after(failure)

    async def _next(self) -> GenerateResponse | None:
        if self._call is None:
            return None
        try:
            response = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        except asyncio.CancelledError:
            # grpc.aio raises it for a cancelled call too, although no task was cancelled.
            if _task_is_cancelled():
                raise
            raise CallCancelled(grpc.StatusCode.CANCELLED, "the answer was closed") from None
        return response if isinstance(response, GenerateResponse) else None

    def _note(self, response: GenerateResponse) -> None:
        if response.HasField("accepted"):
            self.accepted = response.accepted
        elif response.HasField("finished"):
            self.finished = response.finished


def _word(reason: "FinishReason.ValueType") -> str:
    return FinishReason.Name(reason).removeprefix("FINISH_REASON_").lower()


def _task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
