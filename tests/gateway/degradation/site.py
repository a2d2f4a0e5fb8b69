"""A gateway whose tenant lets its requests be changed, and what its limiter says."""

import copy
from typing import Any

from tests.gateway.harness import MAX_CONTEXT, MODEL, Gateway
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ReserveRequest
from weir_core.errors import LimitExceeded, Reason, Violation
from weir_core.errors.refusal import refused_for_now

ALL = ["smaller_model", "lower_max_new_tokens", "cheaper_sampling"]
SMALL, SMALLEST, FORBIDDEN = "nano", "pico", "org/secret"


def with_fallbacks(document: dict[str, Any]) -> None:
    """tiny -> org/secret, which acme may not use -> nano -> pico, of twice the context."""
    tiny, secret = document["models"]
    tiny["fallback_model"] = FORBIDDEN
    secret["fallback_model"] = SMALL
    for name, fallback, context in ((SMALL, SMALLEST, MAX_CONTEXT), (SMALLEST, "", 512)):
        model = copy.deepcopy(tiny) | {"name": name, "aliases": [], "max_context": context}
        model["fallback_model"] = fallback or None
        document["models"].append(model)
    document["models"][0]["price"] = {"input": 1, "output": 2}
    document["tenants"][0]["policy"] = {
        "allowed_models": [MODEL, SMALL, SMALLEST],
        "degradations": ALL,
        "degradation": {"min_new_tokens": 4, "truncate": "head"},
    }


async def set_policy(gateway: Gateway, **policy: Any) -> None:
    """Gives the tenant another policy, beside the models that it may use."""
    document = copy.deepcopy(gateway.document)
    allowed = document["tenants"][0]["policy"]["allowed_models"]
    document["tenants"][0]["policy"] = {"allowed_models": allowed} | policy
    await gateway.reload(document)


def output_of(request: ReserveRequest) -> int:
    return int(request.max_new_tokens)


def too_many_tokens(request: ReserveRequest, limit: int, layer: str = "tenant") -> LimitExceeded:
    """As the limiter refuses what has more than `limit` tokens."""
    wanted = request.prompt_tokens + output_of(request)
    own = layer not in ("model", "cluster")
    violation = Violation(
        limit_id="tenant:acme/tpm" if layer == "tenant" else f"model:{request.subject.model}/tpm",
        limit_type="tpm",
        resource="tokens",
        layer=layer,
        limit=limit if own else None,
        used=0 if own else None,
        requested=wanted,
        reset_time_ms=2_000,
        knob="`tpm` of plan team",
    )
    return refused_for_now([violation], 1_000)


def too_many_requests() -> LimitExceeded:
    violation = Violation(
        limit_id="tenant:acme/rps",
        limit_type="rps",
        resource="requests_per_second",
        layer="tenant",
        limit=1,
        used=1,
        requested=1,
        reset_time_ms=2_000,
        knob="`rps` of plan team",
    )
    refused = refused_for_now([violation], 1_000)
    assert refused.reason is Reason.RATE_LIMIT_EXCEEDED
    return refused
