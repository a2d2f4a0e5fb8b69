"""`weir.gateway.v1.PrefixService`: thin over `PrefixDesk`."""

# ruff: noqa: N802 - methods are named by the contract

import json
from collections.abc import Sequence

from weir.gateway.v1.inference_service_pb2 import ChatInput
from weir.gateway.v1.inference_service_pb2 import ChatMessage as WireMessage
from weir.gateway.v1.prefix_service_pb2 import (
    DeletePrefixRequest,
    DeletePrefixResponse,
    GetPrefixRequest,
    GetPrefixResponse,
    ListPrefixesRequest,
    ListPrefixesResponse,
    PrefixWarmth,
    PutPrefixRequest,
    PutPrefixResponse,
    WarmPrefixRequest,
    WarmPrefixResponse,
)
from weir.gateway.v1.prefix_service_pb2 import Prefix as PrefixMessage
from weir.gateway.v1.prefix_service_pb2_grpc import PrefixServiceServicer
from weir_core.errors import InvalidField
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.messages import timestamp
from weir_gateway.flow.reception import Reception
from weir_gateway.native.conversion import to_native_chat
from weir_gateway.native.message_size import check_size
from weir_gateway.prefixes.desk import PrefixDesk
from weir_gateway.prefixes.pages import PrefixPages
from weir_gateway.prefixes.prefix import Prefix, PrefixContent, Warmth
from weir_gateway.prefixes.warm_keeper import WarmKeeper


class PrefixServicer(PrefixServiceServicer):
    """Serves callers their tenant's prefixes.

    Args:
        reception: lets them in.
        desk, keeper: see there.
        max_bytes: of a request.
    """

    def __init__(
        self, reception: Reception, desk: PrefixDesk, keeper: WarmKeeper, *, max_bytes: int
    ) -> None:
        self._reception = reception
        self._desk = desk
        self._keeper = keeper
        self._pages = PrefixPages(desk)
        self._max_bytes = max_bytes

    async def PutPrefix(self, request: PutPrefixRequest, context: Context) -> PutPrefixResponse:
        """Keeps a new version."""
        caller = self._caller(context)
        check_size(request, self._max_bytes)
        prefix = await self._desk.put(caller, request.name, _content(request), request.models)
        if not request.keep_cold:
            self._keeper.warm_later(caller, prefix)
        return PutPrefixResponse(prefix=_message(prefix))

    async def GetPrefix(self, request: GetPrefixRequest, context: Context) -> GetPrefixResponse:
        """Reads one version."""
        prefix = await self._desk.get(self._caller(context), request.name, request.version)
        return GetPrefixResponse(prefix=_message(prefix, await self._desk.warmths(prefix)))

    async def ListPrefixes(
        self, request: ListPrefixesRequest, context: Context
    ) -> ListPrefixesResponse:
        """Lists versions, without their content."""
        caller = self._caller(context)
        found, token = await self._pages.page(caller, request.page_size, request.page_token)
        return ListPrefixesResponse(prefixes=map(_message, found), next_page_token=token)

    async def DeletePrefix(
        self, request: DeletePrefixRequest, context: Context
    ) -> DeletePrefixResponse:
        """Removes one version, or all."""
        await self._desk.delete(self._caller(context), request.name, request.version)
        return DeletePrefixResponse()

    async def WarmPrefix(self, request: WarmPrefixRequest, context: Context) -> WarmPrefixResponse:
        """Computes it on every worker of its models."""
        caller = self._caller(context)
        prefix = await self._desk.get(caller, request.name, request.version)
        warmths = await self._keeper.warm(caller, prefix)
        return WarmPrefixResponse(warmths=map(_warmth, warmths))

    def _caller(self, context: Context) -> Caller:
        header = first_value(context.invocation_metadata(), AUTHORIZATION)
        return self._reception.let_in(header)


def _content(request: PutPrefixRequest) -> PrefixContent:
    kind = request.WhichOneof("content")
    if kind == "text":
        return PrefixContent(text=request.text)
    if kind == "chat":
        return PrefixContent(chat=to_native_chat(request.chat))
    raise InvalidField("content", None, "one of text and chat")


def _message(prefix: Prefix, warmths: Sequence[Warmth] = ()) -> PrefixMessage:
    message = PrefixMessage(
        name=prefix.name,
        version=prefix.version,
        models=prefix.models,
        create_time=timestamp(prefix.created_ms * 1_000),
        warmths=map(_warmth, warmths),
    )
    chat = prefix.content.chat
    if chat is not None:
        messages = [
            WireMessage(role=one.role, content=one.content, name=one.name) for one in chat.messages
        ]
        message.chat.CopyFrom(
            ChatInput(messages=messages, tools_json=map(json.dumps, map(dict, chat.tools)))
        )
    elif prefix.content.text is not None:
        message.text = prefix.content.text
    return message


def _warmth(warmth: Warmth) -> PrefixWarmth:
    return PrefixWarmth(
        model=warmth.model,
        worker_id=warmth.worker_id,
        time=timestamp(warmth.time_ms * 1_000),
        prompt_tokens=warmth.prompt_tokens,
    )
