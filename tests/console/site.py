"""A deployment with something to see: three tenants, one of them short of tokens, and traffic."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from tests.e2e.deployment import Deployment, deployed
from weir.gateway.v1.inference_service_pb2 import GenerateRequest

if TYPE_CHECKING:
    from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceAsyncStub

PLANS: list[dict[str, Any]] = [
    {
        "id": "team",
        "limits": [
            {"id": "slots", "resource": "concurrency", "limit": 2_000},
            {"id": "rpm", "resource": "requests", "rate": "100000/min"},
            {"id": "tpm", "resource": "tokens", "rate": "10M/min"},
            {"id": "day", "resource": "tokens", "limit": 50_000_000, "window": "day"},
            {"id": "budget", "resource": "cost", "limit": 500, "window": "month"},
        ],
    },
    {"id": "trial", "limits": [{"id": "tpm", "resource": "tokens", "rate": "100/min"}]},
]
TENANTS: dict[str, dict[str, Any]] = {
    "acme": {
        "plan": "team",
        "name": "Acme",
        "policy": {"weight": 2, "slo": {"ttft_ms": 60_000, "attainment": 0.9}},
    },
    "globex": {"plan": "team", "name": "Globex"},
    "initech": {"plan": "trial", "name": "Initech"},
}
PRICED = {"price": {"input": "0.15", "cached_input": "0.05", "output": "0.6"}}
LONG = 4_000
"""Tokens of an answer that takes most blocks of the worker, for half a minute."""

SETTINGS = {"WEIR_WORKER__NULL_STEP_US": "8000", "WEIR_WORKER__NUM_BLOCKS": "480"}


@asynccontextmanager
async def console_site(state: Path, *, workers: int = 1) -> AsyncIterator[Deployment]:
    """Starts it with the model that computes nothing, in slow steps and few blocks."""
    async with deployed(
        state,
        None,
        tenants=TENANTS,
        plans=PLANS,
        model=PRICED,
        workers=workers,
        settings=SETTINGS,
    ) as stack:
        yield stack


def admin_secret(stack: Deployment) -> str:
    """What lets the administrator in."""
    return (stack.state / "admin_secret").read_text().strip()


def secrets_of(stack: Deployment) -> dict[str, str]:
    """By name, all that no page and no answer may hold."""
    keys = {f"key of {tenant}": stack.secret(tenant) for tenant in TENANTS}
    cluster = (stack.state / "cluster_secret").read_text().strip()
    return {**keys, "admin secret": admin_secret(stack), "cluster secret": cluster}


async def ask(stack: Deployment, tenant: str, prompt: str, tokens: int) -> str:
    """One whole request of a tenant; gives its id, "" if it was refused or ended early."""
    request = GenerateRequest(model=stack.model, prompt=prompt, max_new_tokens=tokens, stream=True)
    request_id = ""
    with suppress(grpc.aio.AioRpcError):
        async with stack.inference() as stub:
            async for message in stub.Generate(
                request, metadata=stack.metadata(tenant), timeout=120
            ):
                request_id = message.accepted.request_id or request_id
    return request_id


@asynccontextmanager
async def living(stack: Deployment, tenant: str, count: int) -> AsyncIterator[None]:
    """So many requests of a tenant that run or wait until the end of the context."""
    async with stack.inference() as stub, asyncio.TaskGroup() as group:
        tasks = [group.create_task(_lives(stub, stack, tenant, one)) for one in range(count)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _lives(
    stub: "InferenceServiceAsyncStub", stack: Deployment, tenant: str, number: int
) -> None:
    request = GenerateRequest(
        model=stack.model, prompt=f"request {number}", max_new_tokens=LONG, stream=True
    )
    while True:
        async for _ in stub.Generate(request, metadata=stack.metadata(tenant), timeout=300):
            pass
