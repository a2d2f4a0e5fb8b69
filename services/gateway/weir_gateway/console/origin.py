"""Whether a request comes from a page of this very gateway."""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from weir_core.errors import Reason, WeirError

_SAME = ("same-origin", "none")


class Origins:
    """Knows the own address.

    Args:
        public_url: at which browsers reach the gateway; empty: at what they say.
    """

    def __init__(self, public_url: str) -> None:
        parts = urlsplit(public_url)
        self._public = f"{parts.scheme}://{parts.netloc}".lower() if public_url else ""
        known = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
        self.port = known if public_url else 0
        """Of the public URL; 0 without one."""

    def is_secure(self, request: HTTPConnection) -> bool:
        """Whether the browser speaks TLS, here or with a proxy that is known of."""
        return request.url.scheme == "https" or self._public.startswith("https://")

    def base(self, request: HTTPConnection) -> str:
        """Scheme, host and port by which the browser knows the gateway."""
        return self._public or f"{request.url.scheme}://{request.headers.get('host', '')}".lower()

    def check(self, request: HTTPConnection) -> None:
        """Checks a change.

        Raises:
            WeirError: PERMISSION_DENIED: a page of another origin sent it.
        """
        origin = request.headers.get("origin")
        own = f"{request.url.scheme}://{request.headers.get('host', '')}".lower()
        foreign = origin is not None and origin.lower() not in (own, self._public)
        if foreign or request.headers.get("sec-fetch-site", "none") not in _SAME:
            raise WeirError(
                Reason.PERMISSION_DENIED,
                "the request comes from a page of another origin; behind a proxy, set "
                "console.public_url to the URL that browsers use",
            )
