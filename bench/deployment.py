"""A whole deployment for benchmarks: every limit on, and none in the way."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from bench.load import Client, open_client
from weir_cli.stack.local import LocalStack, StackOptions
from weir_cli.stack.served_model import choose_model
from weir_gateway.keys import NewKey, generate_key

_TENANT = "bench"
_LIMITS: list[dict[str, Any]] = [
    {"resource": "concurrency", "limit": 10_000},
    {"resource": "requests", "rate": "1M/s"},
    {"resource": "tokens", "rate": "1000M/min"},
]
# A null worker sends one token a message: what messages cost is what is measured.
_EACH_STEP = {"WEIR_WORKER__STREAM_INTERVAL_MS": "0"}


@asynccontextmanager
async def deployment(
    *,
    null: bool,
    otlp: str = "",
    environment: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> AsyncIterator[tuple[LocalStack, Client]]:
    """The four services as processes, and a client of their gateway.

    Args:
        null: serve the model that computes nothing, and send each of its steps by itself; else
            the default model.
        otlp: where traces go; empty: nowhere.
        environment: of the services, beside that of this process.
        parameters: of the model, such as `batch_wait_ms`, in place of the defaults.
    """
    with TemporaryDirectory(prefix="weir-bench-") as folder:
        key = generate_key("dev")
        directory = Path(folder, "directory.yaml")
        directory.write_text(await _directory(null, key, parameters or {}))
        options = StackOptions(
            port=0,
            null=null,
            directory=directory,
            state_dir=Path(folder, "state"),
            api_key=key.secret,
            otlp=otlp,
            environment=(_EACH_STEP if null else {}) | dict(environment or {}),
        )
        stack = LocalStack(options, _say, _say)
        try:
            await stack.start()
            welcome = stack.welcome
            async with open_client(welcome.grpc, welcome.key, welcome.model) as client:
                yield stack, client
        finally:
            await stack.stop()


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process and its children, in units of 10^6 bytes (Linux)."""
    total = 0
    for process in (pid, *_children(pid)):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total / 1e6


async def _directory(null: bool, key: NewKey, parameters: Mapping[str, Any]) -> str:
    model = await choose_model(None, null, _say)
    served = {
        "name": model.name,
        "versions": [{"version": "1", "folder": str(model.folder)}],
        "max_context": model.max_context,
        "limits": _LIMITS,
        "parameters": dict(parameters),
    }
    tenant = {
        "id": _TENANT,
        "plan": _TENANT,
        "users": [{"id": _TENANT}],
        "keys": [{"id": key.id, "user": _TENANT, "hash": f"sha256:{key.hash.hex()}"}],
    }
    return yaml.safe_dump(
        {
            "cluster": {"limits": _LIMITS[1:]},
            "plans": [{"id": _TENANT, "limits": _LIMITS}],
            "models": [served],
            "tenants": [tenant],
        }
    )


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_children(int(child))]
    return found


def _say(text: str) -> None:
    os.write(2, f"{text.rstrip()}\n".encode())
