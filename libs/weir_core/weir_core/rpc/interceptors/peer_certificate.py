"""Who may call, by the certificate that was shown."""

from collections.abc import Collection
from typing import Any

from weir_core.errors import Reason, WeirError
from weir_core.rpc.interceptors.auth import ALWAYS_OPEN
from weir_core.rpc.interceptors.handler import HandlerInterceptor, Proceed, RpcCall


class PeerCertificateInterceptor(HandlerInterceptor):
    """Serves only callers whose certificate is that of a service.

    A server may have a public port beside the one that asks for certificates: what is for
    services alone is refused there. That the certificate is of the right CA and valid has been
    checked by the handshake.

    Args:
        domain: the certificate must be of a name in it; empty: of any name.
        open_services: full names of services that anybody may call.
    """

    def __init__(self, domain: str, *, open_services: Collection[str] = ()) -> None:
        self._suffix = f".{domain}".encode() if domain else b""
        self._domain = domain
        self._open = ALWAYS_OPEN | set(open_services)

    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Serves the RPC if its caller is one of the services."""
        if call.method.service not in self._open:
            self._check(call.context.auth_context())
        return await proceed()

    def _check(self, shown: Any) -> None:
        if not shown.get("x509_subject") and not shown.get("x509_subject_alternative_name"):
            raise WeirError(
                Reason.PERMISSION_DENIED,
                "this service is for holders of a certificate of tls.ca; call it at the address "
                "of the services, with tls.certificate and tls.key set on the caller",
            )
        names = shown.get("peer_dns") or ()
        if self._suffix and not any(name.endswith(self._suffix) for name in names):
            raise WeirError(
                Reason.PERMISSION_DENIED,
                f"the caller's certificate bears no name in tls.peer_domain {self._domain!r}",
            )
