"""A whole gateway in this process, with fakes around it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import grpc
import httpx2
import openai
import yaml
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from tests.gateway.fake_limiter import FakeLimiter
from tests.gateway.fake_scheduler import FakeScheduler
from tests.gateway.fake_server import TOKEN
from tests.gateway.fake_worker import FakeWorker
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub
from weir_core.config import TlsSettings
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_core.tls.identity import TlsIdentity, service_identity
from weir_gateway.app import GatewayApp
from weir_gateway.keys import NewKey, generate_key
from weir_gateway.settings import GatewaySettings

MODEL = "tiny"
MAX_CONTEXT = 256
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
    "{% if message['role'] == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)


def write_model_folder(folder: Path) -> Path:
    """Tokenizer (bytes and three special tokens), template and config; no weights."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "model_type": "llama",
        "vocab_size": len(alphabet) + 3,
        "max_position_embeddings": MAX_CONTEXT,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": special[2]}))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return folder


def directory_document(folder: Path, key: NewKey, other: NewKey) -> dict[str, Any]:
    limits = [
        {"resource": "concurrency", "limit": 64},
        {"resource": "tokens", "rate": "100k/min"},
        {"resource": "requests", "rate": "1000/s"},
    ]
    return {
        "plans": [{"id": "team", "limits": limits, "policy": {"max_priority": 10}}],
        "models": [
            {
                "name": MODEL,
                "aliases": ["small"],
                "versions": [{"version": "v1", "folder": str(folder)}],
                "max_context": MAX_CONTEXT,
                "parameters": {"default_max_new_tokens": 8, "max_new_tokens": 200},
            },
            {
                "name": "org/secret",
                "versions": [{"version": "v1", "folder": str(folder)}],
                "max_context": MAX_CONTEXT,
            },
        ],
        "tenants": [
            {
                "id": "acme",
                "plan": "team",
                "policy": {"allowed_models": [MODEL]},
                "users": [{"id": "alice"}],
                "keys": [{"id": key.id, "user": "alice", "hash": key.hash.hex()}],
            },
            {
                "id": "globex",
                "plan": "team",
                "users": [{"id": "alice"}],
                "keys": [{"id": other.id, "user": "alice", "hash": other.hash.hex()}],
            },
        ],
    }


@dataclass
class Gateway:
    """A running gateway and everything around it."""

    app: GatewayApp
    limiter: FakeLimiter
    scheduler: FakeScheduler
    workers: list[FakeWorker]
    key: NewKey
    other_key: NewKey
    directory: Path
    document: dict[str, Any]
    http: httpx2.AsyncClient
    channel: grpc.aio.Channel

    @property
    def worker(self) -> FakeWorker:
        return self.workers[0]

    @property
    def stub(self) -> InferenceServiceStub:
        return InferenceServiceStub(self.channel)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.key.secret}"),)

    def openai(self, **options: Any) -> openai.AsyncOpenAI:
        defaults: dict[str, Any] = {"max_retries": 0, "timeout": 20.0, "api_key": self.key.secret}
        options = defaults | options
        return openai.AsyncOpenAI(base_url=f"{str(self.http.base_url).rstrip('/')}/v1", **options)

    async def chat(self, **fields: Any) -> httpx2.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]} | fields
        return await self.http.post("/v1/chat/completions", json=body)

    async def reload(self, document: dict[str, Any]) -> None:
        self.directory.write_text(yaml.safe_dump(document, allow_unicode=True))
        self.app.reload()

    def reset(self) -> None:
        """Back to how everything was at the start."""
        self.limiter.reset()
        self.scheduler.reset()
        for worker in self.workers:
            worker.reset()

    async def at_rest(self) -> None:
        """Waits until nothing runs, then checks that every account was closed once."""
        edge = self.app.edge
        assert edge is not None
        await eventually(lambda: len(edge.records) == 0)
        await eventually(lambda: not self.limiter.open_accounts)
        assert set(self.limiter.closings) <= {1}
        assert sum(worker.running for worker in self.workers) == 0


async def eventually(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Waits for a condition."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + timeout_s
    while not condition():
        assert loop.time() < ends_at, "the condition did not come true in time"
        await asyncio.sleep(0.005)


def tls_settings(folder: Path, service: str) -> TlsSettings:
    """Of a service, with the certificates of `make_certificates`."""
    return TlsSettings(
        certificate=str(folder / f"{service}.pem"),
        key=str(folder / f"{service}.key"),
        ca=str(folder / "ca.pem"),
        peer_domain="weir.internal",
    )


def identity_of(folder: Path, service: str) -> TlsIdentity:
    """Likewise."""
    identity = service_identity(tls_settings(folder, service))
    assert identity is not None
    return identity


def _channel(address: str, tls: Path | None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(address)
    credentials = grpc.ssl_channel_credentials((tls / "ca.pem").read_bytes())
    return grpc.aio.secure_channel(address, credentials)


@asynccontextmanager
async def running_gateway(
    tmp_path: Path,
    *,
    workers: int = 1,
    more_limiters: Sequence[str] = (),
    more_schedulers: Sequence[str] = (),
    change: Callable[[dict[str, Any]], None] = lambda _: None,
    telemetry: Telemetry | None = None,
    tls: Path | None = None,
    **settings: Any,
) -> AsyncIterator[Gateway]:
    """Starts fakes and gateway; `change` edits the directory before it is written.

    With `tls`, a folder of `make_certificates`, everybody uses TLS.
    """
    limiter = FakeLimiter()
    fleet = [FakeWorker(f"worker-{n}") for n in range(workers)]
    scheduler = FakeScheduler(fleet)
    servers = [limiter.server, scheduler.server, *(worker.server for worker in fleet)]
    services = chain(("ratelimiter", "scheduler"), repeat("worker"))
    for server, service in zip(servers, services, strict=False):
        server.tls = identity_of(tls, service) if tls else None
        await server.start()
    key, other = generate_key("dev"), generate_key("dev")
    document = directory_document(write_model_folder(tmp_path / "model"), key, other)
    change(document)
    directory = tmp_path / "directory.yaml"
    directory.write_text(yaml.safe_dump(document, allow_unicode=True))
    options: dict[str, Any] = {
        "http_address": "127.0.0.1:0",
        "grpc_address": "127.0.0.1:0",
        "ratelimiter_address": ",".join([limiter.server.address, *more_limiters]),
        "scheduler_address": ",".join([scheduler.server.address, *more_schedulers]),
        "directory_file": str(directory),
        "directory_poll_s": 3600.0,
        "cluster_token": TOKEN,
        "abort_wait_s": 5.0,
        "limiter_timeout_s": 5.0,
        "scheduler_wait_s": 5.0,
    }
    if tls is not None:
        options |= {
            "tls": tls_settings(tls, "gateway"),
            "edge_tls": {"certificate": str(tls / "edge.pem"), "key": str(tls / "edge.key")},
            "internal_address": "127.0.0.1:0",
        }
    telemetry = telemetry or Telemetry(tracing=Tracing("gateway"), registry=create_registry())
    app = GatewayApp(GatewaySettings(**(options | settings)), telemetry)
    try:
        await app.start()
        assert app.edge is not None
        await app.edge.scheduler.wait_connected(10)
        async with (
            httpx2.AsyncClient(
                base_url=f"{'https' if tls else 'http'}://{app.http_address}",
                verify=ssl.create_default_context(cafile=tls / "ca.pem") if tls else True,
                headers={"authorization": f"Bearer {key.secret}"},
                timeout=20,
            ) as http,
            _channel(app.grpc_address, tls) as channel,
        ):
            yield Gateway(
                app, limiter, scheduler, fleet, key, other, directory, document, http, channel
            )
    finally:
        await app.stop()
        for server in servers:
            await server.stop()
