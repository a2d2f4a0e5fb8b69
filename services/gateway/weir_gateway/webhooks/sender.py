"""Sends one webhook, once."""

import asyncio
import ssl
from dataclasses import dataclass

import httpcore2

from weir_core.clock import Clock
from weir_core.telemetry.logs import get_logger
from weir_gateway.webhooks.connector import Connector, Refused
from weir_gateway.webhooks.message import Message
from weir_gateway.webhooks.signature import sign

_log = get_logger(__name__)

_TIMEOUT_S = 15.0
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of it.

    Attributes:
        status: that the receiver answered with; 0: it did not answer.
        error: why not, in words without the URL.
    """

    status: int
    error: str = ""

    @property
    def taken(self) -> bool:
        """Whether the receiver has it."""
        return 200 <= self.status < 300


class Sender:
    """POSTs messages. Redirects are not followed, proxies not used, answers not read.

    Args:
        connector: says where to.
        clock: for the timestamp of signatures.
        timeout_s: for all of it.
        tls: whom to believe; None for the system's authorities.
    """

    def __init__(
        self,
        connector: Connector,
        clock: Clock,
        *,
        timeout_s: float = _TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        # Each delivery connects anew, to an address that was looked at now.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or ssl.create_default_context(),
            max_connections=_AT_ONCE,
            max_keepalive_connections=0,
            network_backend=connector,
        )

    async def send(self, message: Message) -> Sent:
        """Sends a message; never raises but when it is cancelled."""
        unix_s = self._clock.now_us() // 1_000_000
        headers = [
            ("content-type", "application/json"),
            ("user-agent", "tokenweir-webhooks/1"),
            ("webhook-id", message.id),
            ("webhook-timestamp", str(unix_s)),
            ("webhook-signature", sign(message.id, unix_s, message.body, message.secrets)),
            ("content-length", str(len(message.body))),
        ]
        try:
            host = httpcore2.URL(message.url)
            headers.insert(0, ("host", _host(host)))
            async with (
                asyncio.timeout(self._timeout_s),
                self._pool.stream("POST", host, headers=headers, content=message.body) as answer,
            ):
                return Sent(int(answer.status))
        except TimeoutError:
            return Sent(0, f"no answer within {self._timeout_s:.0f} s")
        except Refused as error:
            return Sent(0, str(error))
        except (OSError, ssl.SSLError, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            return Sent(0, f"the connection failed: {type(error).__name__}")
        except httpcore2.TimeoutException:
            return Sent(0, "no answer in time")
        except Exception as error:
            # Whatever a URL of a tenant brings about, it is tried by the schedule, not for ever.
            _log.error("webhook_not_sent", message_id=message.id, error=type(error).__name__)
            return Sent(0, f"it cannot be sent: {type(error).__name__}")

    async def close(self) -> None:
        """Closes what is open."""
        await self._pool.aclose()


def _host(url: httpcore2.URL) -> str:
    name = url.host.decode()
    if ":" in name:
        name = f"[{name}]"
    default = {b"http": 80, b"https": 443}[url.scheme]
    return name if url.port in (None, default) else f"{name}:{url.port}"
