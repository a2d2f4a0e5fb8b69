"""The whole stack as `weir up` runs it: four kinds of processes, a directory, a key."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import yaml
from pydantic import SecretStr

from weir.common.v1.subject_pb2 import Subject
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ExplainRequest, LimitStatus
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir.scheduler.v1.scheduler_service_pb2 import (
    GetPoolStatusRequest,
    ListQueueRequest,
    ListWorkersRequest,
    PoolStatus,
    WorkerView,
)
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir.scheduler.v1.worker_report_pb2 import WorkerLoad
from weir.worker.v1.worker_service_pb2 import GetLoadRequest
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from weir_cli.stack.local import LocalStack, StackOptions
from weir_core.model_folder import ModelFolder, models_home
from weir_core.rpc.channel import open_channel
from weir_gateway.keys import NewKey, generate_key
from weir_worker.engine.config import NULL_MODEL
from weir_worker.engine.null_folder import ensure_null_model

if TYPE_CHECKING:
    from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceAsyncStub

FEW_BLOCKS = {"WEIR_WORKER__NUM_BLOCKS": "16384"}
"""Of the model that computes nothing: as it has no cache, it would have half a million of them,
which take as long to make as the rest of a worker's start."""


@dataclass
class Deployment:
    """A running stack and the doors that tests look through."""

    stack: LocalStack
    keys: Mapping[str, NewKey]
    model: str
    state: Path
    lines: list[str] = field(default_factory=list)
    """What the supervisor has said."""

    @property
    def base_url(self) -> str:
        return f"http://{self.stack.welcome.http}/v1"

    @property
    def grpc_address(self) -> str:
        return self.stack.welcome.grpc

    def secret(self, tenant: str) -> str:
        return self.keys[tenant].secret

    def metadata(self, tenant: str) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.secret(tenant)}"),)

    def address(self, service: str) -> str:
        return self.stack.address(service)

    @asynccontextmanager
    async def inference(self) -> AsyncIterator["InferenceServiceAsyncStub"]:
        async with grpc.aio.insecure_channel(self.grpc_address) as channel:
            yield InferenceServiceStub(channel)

    @asynccontextmanager
    async def inside(self, service: str) -> AsyncIterator[grpc.aio.Channel]:
        """A channel to a service with the cluster secret, as its peers have one."""
        secret = SecretStr((self.state / "cluster_secret").read_text().strip())
        async with open_channel(self.address(service), name="test", token=secret) as channel:
            yield channel

    async def loads(self) -> dict[str, WorkerLoad]:
        """The load of every live worker, asked of the worker itself."""
        loads = {}
        for name in self.stack.pids:
            if name.startswith("worker"):
                async with self.inside(name) as channel:
                    answer = await WorkerServiceStub(channel).GetLoad(GetLoadRequest(), timeout=10)
                    loads[name] = answer.load
        return loads

    async def limits(self, subject: Subject) -> dict[str, LimitStatus]:
        """Where every limit of a caller stands."""
        async with self.inside("ratelimiter") as channel:
            answer = await RateLimiterServiceStub(channel).Explain(
                ExplainRequest(subject=subject), timeout=10
            )
            return {limit.limit_id: limit for limit in answer.limits}

    async def workers(self) -> list[WorkerView]:
        """Workers as the scheduler sees them."""
        async with self.inside("scheduler") as channel:
            stub = SchedulerServiceStub(channel)
            return list((await stub.ListWorkers(ListWorkersRequest(), timeout=10)).workers)

    async def pools(self) -> list[PoolStatus]:
        """Pools as the scheduler sees them."""
        async with self.inside("scheduler") as channel:
            stub = SchedulerServiceStub(channel)
            return list((await stub.GetPoolStatus(GetPoolStatusRequest(), timeout=10)).pools)

    async def queued(self) -> int:
        """Requests that wait at the scheduler."""
        async with self.inside("scheduler") as channel:
            answer = await SchedulerServiceStub(channel).ListQueue(ListQueueRequest(), timeout=10)
            return int(answer.total)


@asynccontextmanager
async def deployed(
    state: Path,
    folder: Path | None,
    *,
    tenants: Mapping[str, Mapping[str, Any]],
    plans: list[dict[str, Any]],
    model: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    pools: list[dict[str, Any]] | None = None,
    workers: int = 1,
    most_workers: int = 0,
    settings: Mapping[str, str] | None = None,
    otlp: str = "",
) -> AsyncIterator[Deployment]:
    """Starts a stack that serves the model in `folder` and ends it.

    Args:
        folder: None for the model that computes nothing.
        tenants: further fields of each tenant by id; `plan` is required.
        settings: environment of the services, such as `WEIR_WORKER__NUM_BLOCKS`.
    """
    keys = {tenant: generate_key("test") for tenant in tenants}
    served = ModelFolder(folder or ensure_null_model(models_home() / NULL_MODEL))
    document = {
        "plans": plans,
        "models": [
            {
                "name": served.path.name,
                "versions": [{"version": "1", "folder": str(served.path)}],
                "max_context": served.max_context,
                **(model or {}),
            }
        ],
        "tenants": [
            {
                "id": tenant,
                "users": [{"id": "user"}],
                "keys": [
                    {
                        "id": keys[tenant].id,
                        "user": "user",
                        "hash": f"sha256:{keys[tenant].hash.hex()}",
                    }
                ],
                **fields,
            }
            for tenant, fields in tenants.items()
        ],
        **({"cluster": cluster} if cluster else {}),
        **({"pools": pools} if pools else {}),
    }
    directory = state.parent / f"{state.name}-directory.yaml"
    directory.write_text(yaml.safe_dump(document))
    lines: list[str] = []
    options = StackOptions(
        workers=workers,
        most_workers=most_workers,
        port=0,
        models=(str(folder),) if folder else (),
        null=folder is None,
        directory=directory,
        state_dir=state,
        otlp=otlp,
        environment={**(FEW_BLOCKS if folder is None else {}), **(settings or {})},
    )
    stack = LocalStack(options, lines.append, lines.append)
    try:
        await stack.start()
        async with _kept_up(stack):
            yield Deployment(stack, keys, stack.welcome.model, state, lines)
    finally:
        await stack.stop()


@asynccontextmanager
async def _kept_up(stack: LocalStack) -> AsyncIterator[None]:
    keeping = asyncio.create_task(stack.keep_up())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
