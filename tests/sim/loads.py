"""Small workloads and fleets for tests of the simulator."""

import hashlib
import random
from typing import Any

from weir_scheduler.queues.entry import RequestClass
from weir_sim.cost.linear import LinearCost
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.workload import SimRequest, Workload

COST = LinearCost(
    step=0.020, prefill_token=1e-4, prefill_position=1e-8, decode=5e-4, context_token=1e-7
)


def request(request_id: str, at_s: float = 0.0, **fields: Any) -> SimRequest:
    defaults: dict[str, Any] = {"tenant_id": "t", "prompt_tokens": 64, "output_tokens": 8}
    return SimRequest(request_id=request_id, arrival_s=at_s, **(defaults | fields))


def workload(*requests: SimRequest, **fields: Any) -> Workload:
    return Workload("test", requests, **fields)


def setup(workers: int = 1, *, spec: WorkerSpec | None = None, **fields: Any) -> Setup:
    defaults: dict[str, Any] = {"cost": COST, "checks": True}
    return Setup(workers=(spec or WorkerSpec(),) * workers, **(defaults | fields))


def random_workload(seed: int, count: int = 60, tenants: int = 3, rate: float = 8.0) -> Workload:
    """Mixed lengths, shared prefixes, both classes."""
    rng = random.Random(seed)
    at_s, requests = 0.0, []
    for index in range(count):
        at_s += rng.expovariate(rate)
        prompt = max(1, int(rng.lognormvariate(5.0, 1.0)))
        tenant = f"t{rng.randrange(tenants)}"
        chain = prefix_chain(f"{tenant}/{rng.randrange(2)}", prompt // 64)
        requests.append(
            request(
                f"r{index}",
                at_s,
                tenant_id=tenant,
                prompt_tokens=prompt,
                output_tokens=max(1, int(rng.lognormvariate(3.0, 1.0))),
                prefix_hashes=chain,
                request_class=rng.choice(list(RequestClass)),
                session_id=rng.choice(["", "s"]),
            )
        )
    return workload(*requests)


def prefix_chain(root: str, pieces: int) -> tuple[bytes, ...]:
    return tuple(hashlib.sha256(f"{root}/{index}".encode()).digest() for index in range(pieces))
