"""The door that `--url` names."""

import ssl
from pathlib import Path

import grpc
import httpx2

from weir_cli.caller_door import channel_credentials, secured_channel
from weir_cli.errors import CommandError
from weir_cli.load.grpc_target import GrpcTarget
from weir_cli.load.http_target import Endpoint, HttpTarget
from weir_cli.load.target import Asked, Target
from weir_cli.plain_text import warn_of_plain_text
from weir_client import AsyncClient, WeirClientError
from weir_core.host_port import join_address

_LOOK_S = 10.0


def is_http(url: str) -> bool:
    """Whether it is an HTTP door; else it is `host:port` of a gateway's gRPC door."""
    return url.startswith(("http://", "https://"))


def open_target(
    url: str, endpoint: Endpoint, asked: Asked, timeout_s: float, ca: Path | None
) -> Target:
    """A target there. Raises CommandError for the URL and the CA."""
    if is_http(url):
        parts = httpx2.URL(url)
        if any(asked.keys.values()):
            address = join_address(parts.host, parts.port or 80)
            warn_of_plain_text(address, "API key", encrypted=parts.scheme == "https")
        return HttpTarget(url, endpoint, asked, timeout_s, _trusting(ca))
    if "://" in url:
        raise CommandError(
            f"--url is {url!r}; it must begin with http:// or https://, or be host:port of a "
            "gateway's gRPC door"
        )
    if any(asked.keys.values()):
        warn_of_plain_text(url, "API key", encrypted=ca is not None)
    return GrpcTarget(secured_channel(url, ca), endpoint, asked, timeout_s)


async def first_model(url: str, key: str, ca: Path | None) -> str:
    """The first model that the server names. Raises CommandError."""
    names = await (_over_http(url, key, ca) if is_http(url) else _over_grpc(url, key, ca))
    if not names:
        raise CommandError(f"{url} names no model that this key may use; give --model")
    return names[0]


async def _over_http(url: str, key: str, ca: Path | None) -> list[str]:
    base = url.rstrip("/").removesuffix("/v1")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(timeout=_LOOK_S, verify=_trusting(ca)) as client:
        try:
            answer = await client.get(f"{base}/v1/models", headers=headers)
            answer.raise_for_status()
            return [str(one["id"]) for one in answer.json()["data"]]
        except (httpx2.HTTPError, KeyError, TypeError, ValueError) as error:
            raise CommandError(
                f"{base}/v1/models: {error or type(error).__name__}; is the server there, is the "
                "key right? --model names the model without this look"
            ) from None


async def _over_grpc(url: str, key: str, ca: Path | None) -> list[str]:
    client = AsyncClient(url, key, credentials=channel_credentials(ca))
    try:
        return [served.name for served in await client.list_models()]
    except (WeirClientError, grpc.aio.AioRpcError) as error:
        raise CommandError(f"{url}: {error}") from None
    finally:
        await client.close()


def _trusting(ca: Path | None) -> ssl.SSLContext | bool:
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise CommandError(f"--ca {ca}: {error.strerror or error}") from None
