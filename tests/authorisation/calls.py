"""One call of a row, and what the caller was told."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from tests.authorisation.surface import Rpc
from tests.authorisation.table import HttpRow, RpcRow
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error

TIMEOUT_S = 20
# Of grpc.aio, to whom writes on a stream that the server has ended: its status is lost.
_WROTE_TOO_LATE = "Internal error from Core"


@dataclass(frozen=True)
class Told:
    """An answer: OK or the refusal, as the caller sees it."""

    code: str
    reason: str = ""
    message: str = ""
    field: str | None = None
    body: str = ""

    def without(self, id_: str) -> "Told":
        """The same for any id: where the caller's own text is quoted, it is left out."""
        return Told(self.code, self.reason, self.message.replace(id_, "ID"), self.field)


async def call_rpc(channel: Any, rpc: Rpc, request: Message, authorization: str) -> Told:
    """Sends one request with these credentials; reads the first answer."""
    metadata = (("authorization", authorization),) if authorization else ()
    while True:
        given: Any = _stream_of(request) if rpc.client_streaming else request
        call = rpc.call(channel)(given, metadata=metadata, timeout=TIMEOUT_S)
        try:
            answer = await (_first(call) if rpc.server_streaming else call)
        except grpc.aio.AioRpcError as error:
            if rpc.client_streaming and error.details() == _WROTE_TOO_LATE:
                continue
            told = from_rpc_error(error, unavailable_as=Reason.INTERNAL)
            return Told(error.code().name, told.reason.value, told.message, told.field)
        return Told("OK", body=str(answer))


def rpc_request(rpc: Rpc, row: RpcRow, id_: str = "") -> Message:
    """The request of a row that names the object of this id."""
    given = row.fields | ({row.id_field: id_} if id_ else {})
    message = rpc.request_class()
    ParseDict(given, message)
    return message


async def call_http(http: Any, route: str, row: HttpRow, authorization: str, id_: str = "") -> Told:
    """Calls a route with these credentials; the parameter of its path is `id_`."""
    method, _, path = route.partition(" ")
    in_path = "{" in path
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + (id_ or "nothing") + rest.partition("}")[2]
    body = row.body
    if body is not None and id_ and not in_path:
        body = body | {row.id_field: id_}
    headers = {"authorization": authorization} if authorization else {"authorization": ""}
    answer = await http.request(method, path, json=body, headers=headers)
    if answer.status_code < 400:
        return Told(str(answer.status_code), body=answer.text)
    error = answer.json().get("error", {})
    return Told(
        str(answer.status_code),
        error.get("reason", ""),
        error.get("message", ""),
        error.get("param"),
    )


async def _stream_of(request: Message) -> AsyncIterator[Message]:
    yield request


async def _first(call: Any) -> Any:
    try:
        answer = await call.read()
        if answer is grpc.aio.EOF:
            await call
        return answer
    finally:
        call.cancel()
