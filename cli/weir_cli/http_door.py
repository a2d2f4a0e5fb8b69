"""The gateway's HTTP door, for commands that use it as any client does."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx2
import typer

from weir_cli.errors import CommandError
from weir_cli.plain_text import warn_of_plain_text
from weir_core.host_port import join_address

Url = Annotated[str, typer.Option(envvar="WEIR_URL", help="Of the gateway's HTTP door.")]
Key = Annotated[str, typer.Option(envvar="WEIR_API_KEY", show_default=False, help="API key.")]
Ca = Annotated[
    Path | None,
    typer.Option(envvar="WEIR_TLS_CA", dir_okay=False, help="PEM file of the CA, for https."),
]
HERE = "http://127.0.0.1:8000"

_CALL_S = 60.0


class HttpDoor:
    """Calls the gateway with an API key; failures are CommandErrors that tell its own words.

    Args:
        url: such as `http://127.0.0.1:8000`.
        key: secret of an API key.
        ca: PEM file of the CA that signed the gateway's certificate; None: the usual ones.
    """

    def __init__(self, url: str, key: str, ca: Path | None) -> None:
        if not key:
            raise CommandError("no API key; set WEIR_API_KEY or give --key")
        if not url.startswith(("http://", "https://")):
            raise CommandError(f"--url is {url!r}; it must begin with http:// or https://")
        parts = httpx2.URL(url)
        address = join_address(parts.host, parts.port or 80)
        warn_of_plain_text(address, "API key", encrypted=parts.scheme == "https")
        self._url = url
        self._client = httpx2.Client(
            base_url=url,
            headers={"authorization": f"Bearer {key}"},
            timeout=_CALL_S,
            verify=True if ca is None else _trusting(ca),
        )

    def close(self) -> None:
        """Ends the connections."""
        self._client.close()

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a GET. Raises CommandError."""
        return self._json(lambda: self._client.get(path, params=query))

    def post(self, path: str, body: Any = None) -> Any:
        """The JSON of a POST. Raises CommandError."""
        return self._json(lambda: self._client.post(path, json=body))

    def upload(self, file: Path, purpose: str) -> Any:
        """Uploads a file, streamed; its object. Raises CommandError."""
        try:
            with file.open("rb") as content:
                form = {"file": (file.name, content, "application/octet-stream")}
                return self._json(
                    lambda: self._client.post("/v1/files", data={"purpose": purpose}, files=form)
                )
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}") from None

    def download(self, path: str) -> Iterator[bytes]:
        """A body, as it comes. Raises CommandError."""
        with self._failures(), self._client.stream("GET", path) as answer:
            if answer.is_error:
                answer.read()
            self._check(answer)
            yield from answer.iter_bytes()

    def _json(self, call: Callable[[], httpx2.Response]) -> Any:
        with self._failures():
            answer = call()
            self._check(answer)
            return answer.json()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except httpx2.HTTPError as error:
            raise CommandError(
                f"{self._url}: {error or type(error).__name__}; does a gateway run, is this its "
                "HTTP door (--url or WEIR_URL), and is its CA known (--ca)?"
            ) from None

    def _check(self, answer: httpx2.Response) -> None:
        if not answer.is_error:
            return
        try:
            told = answer.json()["error"]["message"]
        except (ValueError, KeyError, TypeError):
            told = answer.text[:200]
        raise CommandError(f"{answer.status_code}: {told}")


def _trusting(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise CommandError(f"--ca {ca}: {error.strerror or error}") from None
