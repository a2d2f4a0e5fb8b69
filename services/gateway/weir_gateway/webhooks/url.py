"""URLs that webhooks may be sent to, as far as can be said without asking a name server."""

from urllib.parse import SplitResult, urlsplit

from weir_core.errors import InvalidField
from weir_gateway.intake.shape import Shape

_LONGEST = 2_048


def check_webhook_url(url: str, *, allow_http: bool, field: str = "webhook_url") -> SplitResult:
    """The parts of a URL.

    Addresses are looked at when it is called: what a name means may change until then.

    Raises:
        InvalidField: it is no https URL, or holds a user, a password or a fragment.
    """
    bound = "an https URL" if not allow_http else "an http or https URL"
    bound += f" of up to {_LONGEST} printable ASCII characters, with no user, password or fragment"
    if len(url) > _LONGEST or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidField(field, Shape(url), bound)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidField(field, Shape(url), bound) from None
    schemes = ("https", "http") if allow_http else ("https",)
    secret = parts.username is not None or parts.password is not None
    if parts.scheme not in schemes or not parts.hostname or secret or parts.fragment or port == 0:
        raise InvalidField(field, Shape(url), bound)
    return parts
