"""Idempotency keys of the client's own making, for gateways that keep them."""

import uuid

from weir.gateway.v1.inference_service_pb2 import GenerateRequest
from weir_client.errors import WeirClientError

_FIELD = "idempotency_key"
_KEPT_NOWHERE = frozenset({"STATE_OFF", "NOT_BUILT_YET"})
_NOT_NOW = "STATE_UNAVAILABLE"


class AutomaticKeys:
    """Gives requests a random key, so that an attempt whose answer was lost is not run twice.

    A gateway may keep no keys, or may be without its state database for a while. A request whose
    caller asked for no key is then sent without one.

    Args:
        wanted: False to make none.
    """

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted

    def give(self, request: GenerateRequest) -> bool:
        """Sets a key unless there is one; whether it did."""
        if not self._wanted or request.idempotency_key:
            return False
        request.idempotency_key = uuid.uuid4().hex
        return True

    def take_back(self, request: GenerateRequest, error: WeirClientError) -> bool:
        """Removes a key of ours if `error` is about it: the request can be sent again at once."""
        nowhere = error.reason in _KEPT_NOWHERE or error.field == _FIELD
        if not request.idempotency_key or not (nowhere or error.reason == _NOT_NOW):
            return False
        if nowhere:
            self._wanted = False
        request.idempotency_key = ""
        return True
