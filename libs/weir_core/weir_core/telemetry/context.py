"""Who the current task works for: read by logs and by outgoing calls."""

import re
from contextvars import ContextVar

# An id of a request that was not checked yet goes into headers, where other characters and great
# lengths make the whole call fail.
_UNSENDABLE = re.compile(r"[^\x20-\x7e]")
_SENT_LENGTH = 128

_request_id: ContextVar[str] = ContextVar("weir_request_id", default="")
_tenant_id: ContextVar[str] = ContextVar("weir_tenant_id", default="")


def bind_request(*, request_id: str | None = None, tenant_id: str | None = None) -> None:
    """Notes the request and tenant of the current task and of tasks started from it."""
    if request_id is not None:
        _request_id.set(_UNSENDABLE.sub("?", request_id[:_SENT_LENGTH]))
    if tenant_id is not None:
        _tenant_id.set(tenant_id)


def current_request_id() -> str:
    """The request id of the current task, or an empty string."""
    return _request_id.get()


def current_tenant_id() -> str:
    """The tenant id of the current task, or an empty string."""
    return _tenant_id.get()
