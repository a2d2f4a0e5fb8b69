"""How commands reach a gateway as one of its callers: with an API key."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import grpc
import typer

from weir_cli.errors import CommandError
from weir_cli.plain_text import warn_of_plain_text
from weir_core.errors import Reason
from weir_core.errors.startup import StartupError
from weir_core.errors.status import from_rpc_error
from weir_core.tls.trusted_ca import TrustedCa

T = TypeVar("T")

CALL_S = 10.0
_PAGE = 1_000

Url = Annotated[
    str, typer.Option(envvar="WEIR_TARGET", help="host:port of the gateway's gRPC door.")
]
Key = Annotated[str, typer.Option(envvar="WEIR_API_KEY", show_default=False, help="API key.")]
Ca = Annotated[
    Path | None,
    typer.Option(envvar="WEIR_TLS_CA", dir_okay=False, help="PEM file of the CA: talk by TLS."),
]
DEFAULT_URL = "127.0.0.1:8001"
NOBODY = (
    "; is it running, is this its gRPC door (--url or WEIR_TARGET), and does it want TLS (--ca)?"
)

Metadata = tuple[tuple[str, str], ...]
Method = Callable[[grpc.aio.Channel], Callable[..., Awaitable[Any]]]
"""A method of the service behind a channel."""


def check_caller(url: str, key: str, ca: Path | None) -> None:
    """Checks what says who calls whom; warns of a key that goes there in plain text.

    Raises:
        CommandError: there is no key, or the URL is that of another door.
    """
    if not key:
        raise CommandError("no API key; set WEIR_API_KEY or give --key")
    if "://" in url:
        raise CommandError(f"--url is {url!r}; it must be host:port of the gRPC door")
    warn_of_plain_text(url, "API key", encrypted=ca is not None)


def as_caller(
    url: str, key: str, ca: Path | None, call: Callable[[grpc.aio.Channel, Metadata], Awaitable[T]]
) -> T:
    """Makes one call, or several in one go, with an API key.

    Raises:
        CommandError: what it was refused with, or that nobody answers.
    """
    check_caller(url, key, ca)
    return asyncio.run(_call(url, key, ca, call))


def call_once(
    url: str, key: str, ca: Path | None, method: Method, request: Any, timeout_s: float = CALL_S
) -> Any:
    """The response of one call with an API key. Raises as `as_caller`."""

    async def call(channel: grpc.aio.Channel, metadata: Metadata) -> Any:
        return await method(channel)(request, timeout=timeout_s, metadata=metadata)

    return as_caller(url, key, ca, call)


def list_all(
    url: str, key: str, ca: Path | None, method: Method, request: Any, items: str
) -> list[Any]:
    """Everything in a list, a page after the other, with an API key. Raises as `as_caller`.

    Args:
        request: of the first page.
        items: field of responses with what is listed.
    """
    request.page_size = _PAGE

    async def call(channel: grpc.aio.Channel, metadata: Metadata) -> list[Any]:
        found: list[Any] = []
        while True:
            page = await method(channel)(request, timeout=CALL_S, metadata=metadata)
            found += getattr(page, items)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    return as_caller(url, key, ca, call)


async def _call(
    url: str, key: str, ca: Path | None, call: Callable[[grpc.aio.Channel, Metadata], Awaitable[T]]
) -> T:
    async with secured_channel(url, ca) as channel:
        try:
            return await call(channel, (("authorization", f"Bearer {key}"),))
        except grpc.aio.AioRpcError as error:
            told = from_rpc_error(error, unavailable_as=Reason.INTERNAL, peer="the gateway")
            nobody = error.code() is grpc.StatusCode.UNAVAILABLE and told.reason is Reason.INTERNAL
            raise CommandError(f"{url}: {told.message}{NOBODY if nobody else ''}") from None


def secured_channel(url: str, ca: Path | None) -> grpc.aio.Channel:
    """A channel there, by TLS if a CA is given. Raises CommandError for the CA."""
    credentials = channel_credentials(ca)
    if credentials is None:
        return grpc.aio.insecure_channel(url)
    return grpc.aio.secure_channel(url, credentials)


def channel_credentials(ca: Path | None) -> grpc.ChannelCredentials | None:
    """TLS that trusts a CA; None: plain text. Raises CommandError for the CA."""
    try:
        return TrustedCa(ca).channel_credentials() if ca is not None else None
    except StartupError as error:
        raise CommandError(f"--ca {error}") from None
