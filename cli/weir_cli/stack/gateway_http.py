"""HTTP to the gateway of this stack."""

import ssl
import urllib.request
from collections.abc import Mapping
from pathlib import Path

_CALL_S = 2.0


def get(
    http: str, path: str, ca: Path | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """The body of a GET. Raises OSError, of which urllib.error.HTTPError is one.

    Args:
        http: `host:port` of the gateway.
        path: from the slash on.
        ca: PEM file of the CA that signed its certificate; None: plain HTTP.
        headers: of the request.
    """
    scheme = "http" if ca is None else "https"
    request = urllib.request.Request(f"{scheme}://{http}{path}", headers=dict(headers or {}))  # noqa: S310 - as said
    context = None if ca is None else ssl.create_default_context(cafile=ca)
    with urllib.request.urlopen(request, timeout=_CALL_S, context=context) as answer:  # noqa: S310
        body: bytes = answer.read()
        return body
