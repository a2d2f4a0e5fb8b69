"""With which status an RPC ended, seen from outside its handler."""

from asyncio import CancelledError

import grpc

from weir_core.errors import WeirError
from weir_core.errors.status import grpc_code
from weir_core.rpc.interceptors.handler import Context

_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


def code_of(context: Context, error: BaseException | None) -> grpc.StatusCode:
    """The code that the client got, or would have got had it stayed.

    `context.cancelled()` is False even after a cancel, so the exception tells.
    """
    if isinstance(error, CancelledError):
        left: float | None = context.time_remaining()
        late = left is not None and left <= 0
        return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
    if isinstance(error, WeirError):
        return grpc_code(error)
    if isinstance(error, grpc.aio.AbortError) or error is None:
        return _set_code(context) or grpc.StatusCode.OK
    return grpc.StatusCode.INTERNAL


def _set_code(context: Context) -> grpc.StatusCode | None:
    code: object = context.code()
    if isinstance(code, grpc.StatusCode):
        return code
    return _BY_NUMBER.get(code) if isinstance(code, int) else None
