"""Exceptions to statuses; nothing else leaves a handler."""

import asyncio
import secrets
from typing import Any, NoReturn

import grpc

from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error, grpc_code, to_status, to_trailers
from weir_core.rpc.interceptors.handler import (
    ClientGone,
    Context,
    HandlerInterceptor,
    Proceed,
    RpcCall,
    RpcMethod,
)
from weir_core.rpc.metadata import REQUEST_ID
from weir_core.telemetry.context import current_request_id
from weir_core.telemetry.logs import get_logger

_log = get_logger(__name__)


class ErrorsInterceptor(HandlerInterceptor):
    """Turns what a handler raises into a status with details.

    - WeirError: its code, message and details.
    - An `AioRpcError` of a call that the handler made: what the peer said, if it was ours.
    - CancelledError of an RPC that was not cancelled: CANCELLED. Left alone it would let the
      client of a unary call wait for ever.
    - CancelledError of a cancelled RPC that the handler swallowed: raised again, as grpc leaks
      memory otherwise.
    - Anything else: INTERNAL with an id; the log has the traceback under that id.
    """

    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Serves the RPC and maps its exceptions."""
        method, context = call.method, call.context
        try:
            result = await proceed()
        except ClientGone:
            raise
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            await _abort(context, WeirError(Reason.CANCELLED, f"{method.name} was cancelled"))
        except (grpc.aio.AbortError, grpc.aio.UsageError):
            raise
        except Exception as exc:
            await _abort(context, as_told(method, exc))
        else:
            if _is_cancelled():
                raise asyncio.CancelledError
            return result


def as_told(method: RpcMethod, exc: Exception) -> WeirError:
    """What the caller of `method` is told of an exception; what is not ours to tell is logged."""
    if isinstance(exc, WeirError):
        return exc
    if isinstance(exc, grpc.aio.AioRpcError):
        told = from_rpc_error(exc, unavailable_as=Reason.INTERNAL)
        if told.reason is not Reason.INTERNAL:
            return told
    return _internal(method, exc)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _abort(context: Context, exc: WeirError) -> NoReturn:
    # The message of the status and that of the details must be equal, or clients drop both.
    trailers = to_trailers(exc)
    if request_id := current_request_id():
        trailers = (*trailers, (REQUEST_ID, request_id))
    await context.abort(grpc_code(exc), to_status(exc).message, trailers)


def _internal(method: RpcMethod, exc: Exception) -> WeirError:
    error_id = current_request_id() or f"err_{secrets.token_hex(8)}"
    _log.error("rpc_failed", method=method.path, error_id=error_id, exc_info=exc)
    return WeirError(Reason.INTERNAL, f"internal error, id {error_id}", metadata={"id": error_id})
