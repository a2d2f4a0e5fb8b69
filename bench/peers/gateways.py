"""Other gateways before the same upstream, each started as its own documentation says."""

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import yaml

from bench.child_process import end_process
from bench.gateway.target import Target
from bench.gateway.upstream import MODEL, TOKENS
from bench.peers.home import environment, is_installed
from bench.peers.peer_process import PeerFailed

_ROOT = Path(__file__).resolve().parents[2]
_HOST = "127.0.0.1"
_START_S = 180.0
_STOP_S = 15.0
_NEVER = 10**9


@asynccontextmanager
async def upstream(folder: Path) -> AsyncIterator[str]:
    """URL of an engine that answers at once."""
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.gateway.upstream:app"]
    command += ["--host", _HOST, "--port", str(port), "--log-level", "warning"]
    async with _process("upstream", command, folder):
        url = f"http://{_HOST}:{port}"
        await _wait_answer(
            Target("upstream", [f"{url}/v1/chat/completions"], "none", MODEL, len(TOKENS[0]))
        )
        yield url


@asynccontextmanager
async def litellm_proxy(upstream_url: str, folder: Path) -> AsyncIterator[Target]:
    """LiteLLM proxy with requests and tokens a minute of its deployment on. Raises PeerFailed."""
    _check_installed("litellm")
    port, key = _free_port(), f"sk-{secrets.token_urlsafe(32)}"
    upstream_model = {
        "model": f"openai/{MODEL}",
        "api_base": f"{upstream_url}/v1",
        "api_key": "sk-unused",
        "rpm": _NEVER,
        "tpm": _NEVER,
    }
    config = folder / "litellm.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "model_list": [{"model_name": MODEL, "litellm_params": upstream_model}],
                "general_settings": {"master_key": key},
                "litellm_settings": {"telemetry": False},
            }
        )
    )
    command = [str(environment("litellm") / "bin" / "litellm"), "--config", str(config)]
    command += ["--host", _HOST, "--port", str(port)]
    settings = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
    async with _process("litellm", command, folder, settings):
        target = _target("litellm", port, key)
        await _wait_answer(target)
        yield target


@asynccontextmanager
async def smg(upstream_url: str, folder: Path) -> AsyncIterator[Target]:
    """SMG, in Rust; it has no limits on. Raises PeerFailed."""
    _check_installed("smg")
    port = _free_port()
    command = [str(environment("smg") / "bin" / "smg"), "launch", "--worker-urls", upstream_url]
    command += ["--host", _HOST, "--port", str(port), "--policy", "round_robin"]
    command += ["--prometheus-port", str(_free_port())]
    async with _process("smg", command, folder):
        target = _target("smg", port, "none")
        await _wait_answer(target)
        yield target


def _check_installed(name: str) -> None:
    if not is_installed(name):
        raise PeerFailed(f"{name} is not installed; `make peers ARGS={name}` does")


def _target(name: str, port: int, key: str) -> Target:
    return Target(name, [f"http://{_HOST}:{port}/v1/chat/completions"], key, MODEL, len(TOKENS[0]))


@asynccontextmanager
async def _process(
    name: str, command: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    with (folder / f"{name}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=_ROOT,
            env=os.environ | (settings or {}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        await end_process(process, _STOP_S)


async def _wait_answer(target: Target) -> None:
    """Until a request is answered. Raises PeerFailed."""
    body = {"model": target.model, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {target.key}"}
    told = "it does not listen"
    try:
        async with asyncio.timeout(_START_S), httpx2.AsyncClient(timeout=10) as client:
            while True:
                try:
                    answer = await client.post(target.urls[0], json=body, headers=headers)
                except httpx2.HTTPError as error:
                    told = type(error).__name__
                else:
                    if answer.status_code == 200:
                        return
                    told = f"{answer.status_code} {answer.text[:200]}"
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise PeerFailed(f"{target.name} was not ready after {_START_S:.0f} s: {told}") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        number: int = probe.getsockname()[1]
        return number
