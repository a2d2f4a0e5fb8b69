"""The public gRPC door: convert, admit, pass on."""

import asyncio

from weir.gateway.v1.inference_service_pb2 import (
    EmbedRequest,
    EmbedResponse,
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
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_core.telemetry.context import bind_request
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.embeddings.desk import EmbeddingDesk
from weir_gateway.embeddings.messages import embed_response, to_embed_order
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.ending import StopCause, cancelled, deadline_passed
from weir_gateway.flow.reception import Reception
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.idempotency.native_door import NativeIdempotency
from weir_gateway.intake.model_list import ModelList
from weir_gateway.intake.preparer import Preparer
from weir_gateway.native.answer import Answer
from weir_gateway.native.conversion import (
    accepted_message,
    to_request,
    to_tokenize_request,
)
from weir_gateway.native.message_size import check_size

# A client's deadline passes before ours: ours counts from when its call came.
_ON_THE_WAY_S = 0.25


class InferenceServicer(InferenceServiceServicer):
    """`weir.gateway.v1.InferenceService`.

    Args:
        reception, preparer, models, records: see there.
        idempotency: runs requests with a key once.
        max_bytes: of a request.
        stall_s: a client that reads nothing for so long is given up.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        idempotency: NativeIdempotency,
        preparer: Preparer,
        models: ModelList,
        records: RequestRecords,
        max_bytes: int,
        stall_s: float,
    ) -> None:
        self._reception = reception
        self._idempotency = idempotency
        self._preparer = preparer
        self._models = models
        self._records = records
        self._max_bytes = max_bytes
        self._stall_s = stall_s
        self._embeddings = EmbeddingDesk(reception, preparer, models)

    async def Generate(  # type: ignore[override]  # noqa: N802
        self, request: GenerateRequest, context: Context
    ) -> None:
        """Streams one answer."""
        caller = self._caller(context)
        check_size(request, self._max_bytes)
        if request.idempotency_key:
            await self._generate_once(request, caller, context)
            return
        left_s: float | None = context.time_remaining()
        live = (await self._admit(request, caller, left_s)).live
        bind_request(request_id=live.id)
        try:
            await self._write(context, GenerateResponse(accepted=accepted_message(live)))
            answer = Answer(live)
            while not answer.ended:
                for message in await answer.read():
                    await self._write(context, message)
            if answer.error is not None:
                raise answer.error
        finally:
            if not live.ended.done():
                live.stop(_cause(context, left_s))

    async def _generate_once(
        self, request: GenerateRequest, caller: Caller, context: Context
    ) -> None:
        once = self._idempotency
        left_s = None if once.runs_on else context.time_remaining()
        await once.serve(
            request,
            caller,
            lambda message: self._write(context, message),
            lambda ticket: self._admit(request, caller, left_s, ticket),
        )

    async def _admit(
        self,
        request: GenerateRequest,
        caller: Caller,
        deadline_s: float | None,
        ticket: GuardTicket | None = None,
    ) -> Admission:
        return await self._reception.admit(
            caller,
            lambda: to_request(request),
            size=request.ByteSize(),
            ticket=ticket,
            deadline_s=deadline_s,
        )

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

    async def Embed(  # noqa: N802
        self, request: EmbedRequest, context: Context
    ) -> EmbedResponse:
        """Embeddings of texts."""
        caller = self._caller(context)
        check_size(request, self._max_bytes)
        made = await self._embeddings.embed(
            caller, to_embed_order(request), deadline_s=context.time_remaining()
        )
        return embed_response(made)

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
        check_size(request, self._max_bytes)
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

    def _caller(self, context: Context) -> Caller:
        header = first_value(context.invocation_metadata(), AUTHORIZATION)
        caller = self._reception.authenticate(header)
        bind_request(tenant_id=caller.tenant_id)
        return caller


def _cause(context: Context, given_s: float | None) -> StopCause:
    left_s: float | None = context.time_remaining()
    if given_s is not None and left_s is not None and left_s <= _ON_THE_WAY_S:
        return deadline_passed(given_s)
    return cancelled()
