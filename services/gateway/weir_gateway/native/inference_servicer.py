"""The public gRPC door: convert, admit, pass on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from weir.gateway.v1.inference_service_pb2 import (
    GenerateRequest,
    GenerateResponse,
    GetRequestRequest,
    GetRequestResponse,
    ListModelsRequest,
    ListModelsResponse,
    TokenizeRequest,
    TokenizeResponse,
)
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceServicer
from weir.scheduler.v1.scheduler_service_pb2 import Queued
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_core.telemetry.context import bind_request
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.ending import StopCause, cancelled, deadline_passed
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.reception import Reception
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.intake.model_list import ModelList
from weir_gateway.intake.preparer import Preparer
from weir_gateway.native.conversion import (
    accepted_message,
    finished_message,
    to_request,
    to_tokenize_request,
)
from weir_gateway.native.deltas import Deltas

# Only wakes the loop; the deadline of the request is a timer of its own.
_TAKE_S = 30.0

# A client's deadline passes before ours: ours counts from when its call came.
_ON_THE_WAY_S = 0.25


class InferenceServicer(InferenceServiceServicer):
    """`weir.gateway.v1.InferenceService`.

    Args:
        reception, preparer, models, records: see there.
        max_bytes: of a request.
        stall_s: a client that reads nothing for so long is given up.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        preparer: Preparer,
        models: ModelList,
        records: RequestRecords,
        max_bytes: int,
        stall_s: float,
    ) -> None:
        self._reception = reception
        self._preparer = preparer
        self._models = models
        self._records = records
        self._max_bytes = max_bytes
        self._stall_s = stall_s

    async def Generate(  # type: ignore[override]  # noqa: N802
        self, request: GenerateRequest, context: Context
    ) -> None:
        """Streams one answer."""
        caller = self._caller(context)
        self._check_size(request)
        left_s: float | None = context.time_remaining()
        admission = await self._reception.admit(
            caller,
            lambda: to_request(request),
            size=request.ByteSize(),
            deadline_s=left_s,
        )
        live = admission.live
        try:
            await self._write(context, GenerateResponse(accepted=accepted_message(live)))
            async with aclosing(_answer(live)) as responses:
                async for response in responses:
                    await self._write(context, response)
        finally:
            if not live.ended.done():
                live.stop(_cause(context, left_s))

    async def _write(self, context: Context, response: GenerateResponse) -> None:
        """Writes, or gives up on a client that reads nothing for `stall_s`."""
        try:
            async with asyncio.timeout(self._stall_s):
                await context.write(response)
        except TimeoutError:
            raise WeirError(
                Reason.CANCELLED,
                f"the client has read nothing for {self._stall_s:.0f} s; read faster, or do not "
                "stream",
            ) from None

    async def ListModels(  # noqa: N802
        self,
        request: ListModelsRequest,
        context: Context,
    ) -> ListModelsResponse:
        """Models that the caller may use."""
        return ListModelsResponse(models=self._models.of(self._caller(context)))

    async def Tokenize(  # noqa: N802
        self,
        request: TokenizeRequest,
        context: Context,
    ) -> TokenizeResponse:
        """Counts tokens as Generate would."""
        caller = self._caller(context)
        self._reception.check_rate(caller)
        self._check_size(request)
        prompt, most = await self._preparer.tokenize(caller, to_tokenize_request(request))
        return TokenizeResponse(token_ids=prompt.token_ids, max_context_tokens=most)

    async def GetRequest(  # noqa: N802
        self,
        request: GetRequestRequest,
        context: Context,
    ) -> GetRequestResponse:
        """The record of a request of the caller's tenant."""
        caller = self._caller(context)
        if not request.request_id:
            raise InvalidField("request_id", "", "the id of a request")
        record, terminal = self._records.find(caller.tenant_id, request.request_id)
        return GetRequestResponse(lifecycle=record, terminal=terminal)

    def _check_size(self, request: GenerateRequest | TokenizeRequest) -> None:
        size = request.ByteSize()
        if size > self._max_bytes:
            raise WeirError(
                Reason.BODY_TOO_LARGE,
                f"the request has {size} bytes; at most {self._max_bytes} are taken",
            )

    def _caller(self, context: Context) -> Caller:
        header = first_value(context.invocation_metadata(), AUTHORIZATION)
        caller = self._reception.authenticate(header)
        bind_request(tenant_id=caller.tenant_id)
        return caller


async def _answer(live: LiveRequest) -> AsyncGenerator[GenerateResponse]:
    deltas = Deltas(live.prepared, whole=live.delivery.whole)
    while True:
        taken = await live.delivery.take(_TAKE_S)
        if taken.waiting is not None:
            waiting = taken.waiting
            yield GenerateResponse(
                queued=Queued(
                    request_id=live.id,
                    position=waiting.position,
                    reason=waiting.reason,  # type: ignore[arg-type]
                )
            )
        for delta in deltas.of(taken.pieces, last=taken.ending is not None):
            yield GenerateResponse(delta=delta)
        if taken.ending is not None:
            error = taken.ending.error
            if error is None or taken.ending.cut_by_quota:
                yield GenerateResponse(finished=finished_message(live, taken.ending))
            if error is not None:
                raise error
            return


def _cause(context: Context, given_s: float | None) -> StopCause:
    left_s: float | None = context.time_remaining()
    if given_s is not None and left_s is not None and left_s <= _ON_THE_WAY_S:
        return deadline_passed(given_s)
    return cancelled()
