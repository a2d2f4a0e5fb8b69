"""TLS of a gateway: clients at the edge, and certificates between it and the other services."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx2
import openai
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.gateway.fake_server import TOKEN
from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually, identity_of, running_gateway, tls_settings
from weir.directory.v1.directory_service_pb2 import WatchRequest
from weir.directory.v1.directory_service_pb2_grpc import DirectoryServiceStub
from weir_cli.certificate_authority import CertificateAuthority
from weir_cli.commands.tls import make_certificates
from weir_client import AsyncClient, RetryPolicy, WeirClientError
from weir_core.errors.startup import StartupError
from weir_core.rpc.channel import open_channel
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.doors import Doors
from weir_gateway.settings import GatewaySettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

TELEMETRY: list[Telemetry] = []
HI: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls")
    make_certificates(path)
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A gateway whose clients and peers all use TLS; files are looked at every time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weir_core.tls.identity._LOOK_S", 0.0)
        telemetry = Telemetry(tracing=Tracing("gateway"), registry=create_registry())
        path = tmp_path_factory.mktemp("gateway")
        async with running_gateway(path, tls=folder, telemetry=telemetry) as gateway:
            TELEMETRY.append(telemetry)
            yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(secured: Gateway) -> AsyncIterator[Gateway]:
    secured.reset()
    yield secured
    await secured.at_rest()


def _client(gateway: Gateway, verify: Any) -> openai.AsyncOpenAI:
    return gateway.openai(http_client=openai.DefaultAsyncHttpxClient(verify=verify))


async def test_the_openai_sdk_with_the_ca_streams_through_certificates_everywhere(
    gateway: Gateway, folder: Path
) -> None:
    verify = ssl.create_default_context(cafile=folder / "ca.pem")
    async with _client(gateway, verify) as client:
        stream = await client.chat.completions.create(
            model="tiny", messages=HI, max_tokens=4, stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices[0].finish_reason == "length"
    async with _client(gateway, ssl.create_default_context()) as stranger:
        with pytest.raises(openai.APIConnectionError) as caught:
            await stranger.models.list()
    assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value.__cause__)


async def test_the_typed_client_with_the_ca_is_answered(gateway: Gateway, folder: Path) -> None:
    ca = grpc.ssl_channel_credentials((folder / "ca.pem").read_bytes())
    address, key = gateway.app.grpc_address, gateway.key.secret
    async with AsyncClient(address, key, credentials=ca) as client:
        answer = client.generate("tiny", prompt="hi", max_new_tokens=4)
        assert len([text async for text in answer]) >= 1
    async with AsyncClient(address, key, retry=RetryPolicy(attempts=1)) as plain:
        with pytest.raises(WeirClientError):
            await plain.list_models()


async def test_a_plain_client_at_an_encrypted_port_is_sent_away_at_once(gateway: Gateway) -> None:
    async with httpx2.AsyncClient(timeout=10) as plain:
        with pytest.raises(httpx2.RemoteProtocolError):
            await plain.get(f"http://{gateway.app.http_address}/v1/models")
    async with grpc.aio.insecure_channel(gateway.app.grpc_address) as channel:
        call: Any = channel.unary_unary("/weir.gateway.v1.InferenceService/ListModels")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_the_directory_is_for_holders_of_a_certificate_at_its_own_address(
    gateway: Gateway, folder: Path
) -> None:
    request = WatchRequest()
    tls = identity_of(folder, "ratelimiter")
    async with open_channel(
        gateway.app.internal_address, name="gateway", token=TOKEN, tls=tls
    ) as channel:
        watch: Any = DirectoryServiceStub(channel).Watch(request, timeout=20)
        assert (await watch.read()).HasField("snapshot")
        watch.cancel()
    # At the clients' address nobody is asked for one, and the cluster secret is not enough.
    watch = DirectoryServiceStub(gateway.channel).Watch(
        request,
        metadata=(("authorization", f"Bearer {TOKEN.get_secret_value()}"),),
        timeout=20,
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watch.read()
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "certificate of tls.ca" in str(caught.value.details())


async def test_a_renewed_certificate_is_shown_to_new_connections_and_streams_stay(
    gateway: Gateway, folder: Path
) -> None:
    gateway.worker.script = Script(pause_after=2)
    body = {"model": "tiny", "messages": HI, "max_tokens": 4, "stream": True}
    stream = asyncio.create_task(gateway.http.post("/v1/chat/completions", json=body))
    await eventually(lambda: gateway.worker.tokens == 2)
    before = await _shown(gateway, folder)
    CertificateAuthority(folder).issue("edge", ["127.0.0.1"], days=30)
    after = await _shown(gateway, folder)
    assert before[0] == before[1] != after[0] == after[1]
    for group, days in (("tls", 90), ("edge_tls", 30)):
        name = f"weir_{group}_certificate_expiry_seconds"
        left = (TELEMETRY[-1].registry.get_sample_value(name) or 0) - time.time()
        assert 86_400 * (days - 1) < left < 86_400 * days
    assert not stream.done()
    gateway.worker.resume.set()
    assert (await stream).text.rstrip().endswith("[DONE]")


async def _shown(gateway: Gateway, folder: Path) -> tuple[bytes | None, bytes | None]:
    """The certificates of HTTP and gRPC, as a new connection gets them."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.set_alpn_protocols(["h2", "http/1.1"])
    found: list[bytes | None] = []
    for address in (gateway.app.http_address, gateway.app.grpc_address):
        host, _, port = address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        found.append(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.close()
    return found[0], found[1]


async def test_clients_can_be_asked_for_a_certificate_beside_the_key(
    folder: Path, tmp_path: Path
) -> None:
    edge = {
        "certificate": str(folder / "edge.pem"),
        "key": str(folder / "edge.key"),
        "client_ca": str(folder / "ca.pem"),
    }
    authority = CertificateAuthority(folder)
    certificate, key = authority.issue("customer", ["customer"])
    verify = ssl.create_default_context(cafile=folder / "ca.pem")
    async with running_gateway(tmp_path, edge_tls=edge, internal_address="127.0.0.1:0") as gateway:
        url = f"https://{gateway.app.http_address}/v1/models"
        headers = {"authorization": f"Bearer {gateway.key.secret}"}
        async with httpx2.AsyncClient(verify=verify, headers=headers) as client:
            with pytest.raises(httpx2.TransportError):
                await client.get(url)
        verify.load_cert_chain(certificate, key)
        async with httpx2.AsyncClient(verify=verify, headers=headers) as client:
            assert (await client.get(url)).status_code == 200
        ca = (folder / "ca.pem").read_bytes()
        with_own = grpc.ssl_channel_credentials(ca, key.read_bytes(), certificate.read_bytes())
        for credentials, let_in in ((grpc.ssl_channel_credentials(ca), False), (with_own, True)):
            async with AsyncClient(
                gateway.app.grpc_address,
                gateway.key.secret,
                credentials=credentials,
                retry=RetryPolicy(attempts=1),
            ) as typed:
                if let_in:
                    assert await typed.list_models()
                else:
                    with pytest.raises(WeirClientError):
                        await typed.list_models()


@pytest.mark.parametrize(
    ("address", "encrypted", "warned"),
    [
        ("0.0.0.0:0", False, True),
        ("[::]:0", False, True),
        ("127.0.0.1:0", False, False),
        ("0.0.0.0:0", True, False),
    ],
)
async def test_an_admin_secret_that_would_travel_in_plain_text_is_warned_of(
    folder: Path, address: str, encrypted: bool, warned: bool
) -> None:
    values: dict[str, Any] = {
        "grpc_address": address,
        "admin_secret": "an-admin-secret-of-more-than-32-characters",
    }
    if encrypted:
        pair = {"certificate": str(folder / "edge.pem"), "key": str(folder / "edge.key")}
        values |= {"edge_tls": pair, "internal_address": "127.0.0.1:0"}
    server = grpc.aio.server()
    try:
        with capture_logs() as lines:
            Doors(GatewaySettings(**values), create_registry()).bind(server)
    finally:
        await server.stop(None)
    assert ("admin_secret_in_plain_text" in {line["event"] for line in lines}) is warned


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"internal_address": ""}, "internal_address is empty"),
        ({"edge_tls": {"certificate": "edge.pem"}}, "edge_tls.key is empty"),
        ({"edge_tls": {"client_ca": "ca.pem"}}, "edge_tls.certificate is empty"),
        (
            {"edge_tls": {"certificate": "/none/edge.pem", "key": "/none/edge.key"}},
            "edge_tls.certificate /none/edge.pem cannot be read: No such file or directory",
        ),
    ],
)
async def test_settings_that_do_not_go_together_are_refused(
    folder: Path, changed: dict[str, Any], told: str
) -> None:
    values: dict[str, Any] = {
        "tls": tls_settings(folder, "gateway"),
        "internal_address": "127.0.0.1:0",
    }
    with pytest.raises(StartupError) as caught:
        Doors(GatewaySettings(**(values | changed)), create_registry())
    assert str(caught.value).startswith(told)
