"""TLS between services: what is checked at the start, who is let in, and renewal."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.core.support import SERVICE, handlers
from weir_cli.certificate_authority import CertificateAuthority
from weir_cli.commands.tls import make_certificates
from weir_core.config import TlsSettings
from weir_core.errors.startup import StartupError
from weir_core.process.grpc_port import bind
from weir_core.rpc.channel import open_channel
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.tracing import Tracing
from weir_core.tls.identity import TlsIdentity, service_identity

DOMAIN = "weir.internal"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls")
    make_certificates(path)
    return path


def settings(folder: Path, name: str, domain: str = DOMAIN, **files: Any) -> TlsSettings:
    paths = {
        "certificate": str(folder / f"{name}.pem"),
        "key": str(folder / f"{name}.key"),
        "ca": str(folder / "ca.pem"),
    }
    return TlsSettings(peer_domain=domain, **(paths | {k: str(v) for k, v in files.items()}))


def identity(folder: Path, name: str, domain: str = DOMAIN, **files: Any) -> TlsIdentity:
    made = service_identity(settings(folder, name, domain, **files))
    assert made is not None
    return made


async def _echo(request: bytes, context: Any) -> bytes:
    return request


async def _repeat(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for _ in range(2):
        yield request
        await REPEAT.wait()


REPEAT = asyncio.Event()


@asynccontextmanager
async def served(tls: TlsIdentity) -> AsyncIterator[str]:
    """A server of the ratelimiter's; yields its address."""
    server = create_server(
        interceptors=default_interceptors(
            tracing=Tracing("test"), registry=create_registry(), tls=tls
        )
    )
    methods = handlers(Echo=("unary", _echo), Repeat=("server_stream", _repeat))
    server.add_generic_rpc_handlers((methods,))
    address = bind(server, "127.0.0.1:0", "a test", tls)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(0)


async def _ask(address: str, tls: TlsIdentity | None, name: str = "ratelimiter") -> bytes:
    async with open_channel(address, name=name, tls=tls) as channel:
        answer: bytes = await channel.unary_unary(f"/{SERVICE}/Echo")(b"x", timeout=10)
        return answer


async def _refused(address: str, tls: TlsIdentity | None, name: str = "ratelimiter") -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _ask(address, tls, name)
    return caught.value


async def test_services_with_certificates_of_one_ca_reach_each_other(folder: Path) -> None:
    async with served(identity(folder, "ratelimiter")) as address:
        assert await _ask(address, identity(folder, "gateway")) == b"x"
        # Without names of services, by the host that it is reached at.
        assert await _ask(address, identity(folder, "gateway", domain="")) == b"x"


async def test_who_shows_no_certificate_or_one_of_another_ca_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    make_certificates(tmp_path)
    async with served(identity(folder, "ratelimiter")) as address:
        plain = await _refused(address, None)
        foreign = await _refused(address, identity(tmp_path, "gateway", ca=folder / "ca.pem"))
        ca = grpc.ssl_channel_credentials((folder / "ca.pem").read_bytes())
        async with grpc.aio.secure_channel(address, ca) as channel:
            echo: Any = channel.unary_unary(f"/{SERVICE}/Echo")
            with pytest.raises(grpc.aio.AioRpcError) as nothing_shown:
                await echo(b"x", timeout=10)
        for error in (plain, foreign, nothing_shown.value):
            assert error.code() is grpc.StatusCode.UNAVAILABLE
        untrusted = await _refused(address, identity(folder, "gateway", ca=tmp_path / "ca.pem"))
        assert "CERTIFICATE_VERIFY_FAILED" in str(untrusted.details())
        assert await _ask(address, identity(folder, "gateway")) == b"x"


async def test_a_certificate_of_another_name_is_refused_by_both_ends(
    folder: Path, tmp_path: Path
) -> None:
    authority = CertificateAuthority(folder)
    authority.issue("printer", ["printer.office", "localhost"])
    async with served(identity(folder, "ratelimiter")) as address:
        # The server is not the scheduler, and not of that domain.
        for wrong in (
            await _refused(address, identity(folder, "gateway"), name="scheduler"),
            await _refused(address, identity(folder, "gateway", domain="other.internal")),
        ):
            assert wrong.code() is grpc.StatusCode.UNAVAILABLE
        # The client is of the CA, but no service.
        stranger = await _refused(address, identity(folder, "printer"))
        assert stranger.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "tls.peer_domain 'weir.internal'" in str(stranger.details())
    # Without a domain the host counts: 127.0.0.1 is not in this certificate.
    async with served(identity(folder, "printer", domain="")) as address:
        wrong = await _refused(address, identity(folder, "gateway", domain=""))
        assert wrong.code() is grpc.StatusCode.UNAVAILABLE


async def test_renewed_files_are_used_for_new_connections_and_streams_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir_core.tls.identity._LOOK_S", 0.0)
    REPEAT.clear()
    make_certificates(tmp_path)
    server, client = identity(tmp_path, "ratelimiter"), identity(tmp_path, "gateway")
    async with (
        served(server) as address,
        open_channel(address, name="ratelimiter", tls=client) as channel,
    ):
        stream = channel.unary_stream(f"/{SERVICE}/Repeat")(b"x", timeout=60)
        assert await stream.read() == b"x"
        # Another CA: neither end would trust what the other had before.
        _begin_anew(tmp_path)
        assert await channel.unary_unary(f"/{SERVICE}/Echo")(b"y", timeout=10) == b"y"
        assert (server.version, client.version) == (2, 2)
        REPEAT.set()
        assert await stream.read() == b"x"
        assert await stream.read() is grpc.aio.EOF


def _begin_anew(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    make_certificates(folder)


async def test_files_that_are_not_good_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir_core.tls.identity._LOOK_S", 0.0)
    make_certificates(tmp_path)
    server = identity(tmp_path, "ratelimiter")
    kept = server.current()
    (tmp_path / "ratelimiter.pem").write_text("half a certif")
    assert server.current() is kept
    (tmp_path / "ratelimiter.pem").unlink()
    assert server.current() is kept
    CertificateAuthority(tmp_path).issue("ratelimiter", ["ratelimiter.weir.internal"])
    assert server.current() is not kept


def _days(authority: CertificateAuthority, begin: timedelta, days: float) -> None:
    authority.issue("bad", ["localhost"], begin=datetime.now(UTC) + begin, days=days)


def _other_key(authority: CertificateAuthority) -> None:
    authority.issue("bad", ["localhost"])
    authority.issue("other", ["localhost"])
    (authority.folder / "other.key").replace(authority.folder / "bad.key")


def _encrypted_key(authority: CertificateAuthority) -> None:
    from cryptography.hazmat.primitives import serialization as form

    authority.issue("bad", ["localhost"])
    path = authority.folder / "bad.key"
    key = form.load_pem_private_key(path.read_bytes(), None)
    with_password = form.BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, with_password))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda _: None, "tls.certificate {folder}/bad.pem cannot be read: No such file"),
        (lambda ca: _days(ca, timedelta(days=-9), 8), "{folder}/bad.pem has expired at 20"),
        (lambda ca: _days(ca, timedelta(days=9), 9), "{folder}/bad.pem is valid from 20"),
        (_other_key, "tls.key {folder}/bad.key is not the key of tls.certificate {folder}/bad.pem"),
        (_encrypted_key, "tls.key {folder}/bad.key is encrypted; give it without password"),
        (
            lambda ca: (ca.issue("bad", ["x"]), (ca.folder / "bad.key").write_text("key")),
            "tls.key {folder}/bad.key holds no private key in PEM",
        ),
        (
            lambda ca: (ca.issue("bad", ["x"]), (ca.folder / "bad.pem").write_text("pem")),
            "tls.certificate {folder}/bad.pem holds no certificate in PEM",
        ),
    ],
)
def test_a_service_with_bad_files_does_not_start(
    tmp_path: Path, spoil: Callable[[CertificateAuthority], object], told: str
) -> None:
    spoil(CertificateAuthority(tmp_path))
    with pytest.raises(StartupError) as caught:
        service_identity(settings(tmp_path, "bad"))
    assert told.format(folder=tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_half_of_the_settings_is_refused_and_none_is_plain(folder: Path) -> None:
    assert service_identity(TlsSettings()) is None
    with pytest.raises(StartupError, match=r"^tls.ca is empty"):
        service_identity(settings(folder, "gateway", ca=""))
    with pytest.raises(StartupError, match=r"^tls.peer_domain needs"):
        service_identity(TlsSettings(peer_domain=DOMAIN))
