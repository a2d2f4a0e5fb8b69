"""Services prove themselves to each other with the cluster secret."""

import hmac
from collections.abc import Collection, Sequence
from typing import Any

from pydantic import SecretStr

from weir_core.errors import Reason, WeirError
from weir_core.rpc.interceptors.handler import HandlerInterceptor, Proceed, RpcCall
from weir_core.rpc.metadata import AUTHORIZATION

ALWAYS_OPEN = frozenset(
    {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
        "grpc.reflection.v1.ServerReflection",
    }
)
_SCHEME = "bearer "


class ServiceAuthInterceptor(HandlerInterceptor):
    """Asks for `authorization: Bearer <secret>`.

    Args:
        tokens: the secrets accepted; two while one replaces the other.
        open_services: full names of services that check their callers themselves, such as the
            gateway's public API. Health and reflection are always open.
        secret, knob: what errors call the secret, and where callers set it.
    """

    def __init__(
        self,
        tokens: Sequence[SecretStr],
        *,
        open_services: Collection[str] = (),
        secret: str = "the cluster secret",
        knob: str = "WEIR_CLUSTER_TOKEN",
    ) -> None:
        if not all(token.get_secret_value() for token in tokens):
            raise ValueError("an empty cluster token would let everyone in")
        self._tokens = [token.get_secret_value().encode() for token in tokens]
        self._open = ALWAYS_OPEN | set(open_services)
        self._missing = (
            f"this service needs {secret} as `authorization: Bearer`; set {knob} on the caller"
        )
        self._wrong = f"{secret} is wrong; {knob} must be the same everywhere"

    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Serves the RPC if its caller knows the secret."""
        if call.method.service not in self._open:
            self._check(call.metadata(AUTHORIZATION))
        return await proceed()

    def _check(self, header: str) -> None:
        if header[: len(_SCHEME)].lower() != _SCHEME:
            raise WeirError(Reason.API_KEY_MISSING, self._missing)
        sent = header[len(_SCHEME) :].strip().encode()
        # All are compared, each in constant time.
        matches = [hmac.compare_digest(sent, token) for token in self._tokens]
        if not any(matches):
            raise WeirError(Reason.API_KEY_INVALID, self._wrong)
