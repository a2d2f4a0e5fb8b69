"""Who may call what: a row for each RPC and each route. A test fails for what has none.

`object` is the type of the object whose id the request holds; its row is tried with the id of
another tenant's, and with an id that nobody has.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Door(Enum):
    """What a caller must show."""

    OPEN = "nothing"
    TENANT = "a key of a tenant"
    ADMIN = "the admin secret"
    VIEWER = "a key of a tenant, which is told of its own alone, or the admin secret"
    CLUSTER = "the cluster secret"
    PRIVATE = "nothing, at an address of its own"


@dataclass(frozen=True)
class RpcRow:
    """What an RPC asks for; `id_field` holds the id of the `object`, `fields` the rest.

    `owner_gets` are the codes that its owner may get, after another has tried.
    """

    door: Door
    object: str = ""
    id_field: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    owner_gets: tuple[str, ...] = ("OK",)


@dataclass(frozen=True)
class HttpRow:
    """What a route asks for; its path's parameter, or else `id_field`, is the id of `object`."""

    door: Door
    object: str = ""
    id_field: str = ""
    body: dict[str, Any] | None = None
    owner_gets: tuple[str, ...] = ("200", "202", "204")
    not_found: str = "404"


MODEL = "tiny"
_GATEWAY = "weir.gateway.v1"
_CHAT = {"messages": [{"role": "user", "content": "hi"}]}
_TENANT, _ADMIN, _CLUSTER = RpcRow(Door.TENANT), RpcRow(Door.ADMIN), RpcRow(Door.CLUSTER)


def _all(service: str, row: RpcRow, names: str) -> dict[str, RpcRow]:
    return {f"{service}/{name}": row for name in names.split()}


def _of(kind: str, id_field: str, **fields: Any) -> RpcRow:
    return RpcRow(Door.TENANT, kind, id_field, fields)


_GENERATE = {"model": MODEL, "max_new_tokens": 1, "chat": _CHAT}

RPCS: dict[str, RpcRow] = {
    f"{_GATEWAY}.InferenceService/Generate": _of("session", "session_id", **_GENERATE),
    f"{_GATEWAY}.InferenceService/ListModels": _TENANT,
    f"{_GATEWAY}.InferenceService/Tokenize": _of("model", "model", prompt="hi"),
    f"{_GATEWAY}.InferenceService/Embed": _of("model", "model", inputs=[{"text": "hi"}]),
    f"{_GATEWAY}.InferenceService/GetRequest": _of("request", "request_id"),
    f"{_GATEWAY}.SessionService/CreateSession": _of("model", "model"),
    f"{_GATEWAY}.SessionService/GetSession": _of("session", "session_id"),
    f"{_GATEWAY}.SessionService/ListSessions": _TENANT,
    f"{_GATEWAY}.SessionService/DeleteSession": _of("session", "session_id"),
    f"{_GATEWAY}.JobService/SubmitJob": RpcRow(Door.TENANT, fields={"request": _GENERATE}),
    f"{_GATEWAY}.JobService/GetJob": _of("job", "job_id"),
    f"{_GATEWAY}.JobService/WatchJob": _of("job", "job_id"),
    f"{_GATEWAY}.JobService/CancelJob": _of("job", "job_id"),
    f"{_GATEWAY}.JobService/ListJobs": _TENANT,
    f"{_GATEWAY}.PrefixService/PutPrefix": RpcRow(
        Door.TENANT, fields={"name": "a", "text": "hi", "keep_cold": True}
    ),
    f"{_GATEWAY}.PrefixService/GetPrefix": _of("prefix", "name"),
    f"{_GATEWAY}.PrefixService/ListPrefixes": _TENANT,
    f"{_GATEWAY}.PrefixService/DeletePrefix": _of("prefix", "name"),
    f"{_GATEWAY}.PrefixService/WarmPrefix": _of("prefix", "name"),
    **_all(f"{_GATEWAY}.HistoryService", RpcRow(Door.VIEWER), "GetHistory WatchHistory"),
    f"{_GATEWAY}.InsightService/ExplainRequest": RpcRow(Door.VIEWER, "request", "request_id"),
    f"{_GATEWAY}.InsightService/GetConfiguration": _ADMIN,
    **_all(f"{_GATEWAY}.InsightService", RpcRow(Door.VIEWER), "ListRequests GetKvMap"),
    **_all(f"{_GATEWAY}.InsightPeerService", _CLUSTER, "FindRequest ListOwnRequests"),
    **_all("weir.process.v1.ProcessService", _CLUSTER, "GetSettings"),
    **_all(
        f"{_GATEWAY}.AdminService",
        _ADMIN,
        "PutTenant GetTenant ListTenants DeleteTenant PutUser GetUser ListUsers DeleteUser "
        "PutPlan GetPlan ListPlans DeletePlan PutServedModel GetServedModel ListServedModels "
        "DeleteServedModel CreateKey ListKeys RotateKey RevokeKey ListAuditEvents "
        "PutPool GetPool ListPools DeletePool PutClusterLimits GetClusterLimits",
    ),
    **_all(
        f"{_GATEWAY}.WebhookService",
        _ADMIN,
        "GetWebhookSecret RotateWebhookSecret PutWebhookEndpoint ListWebhookEndpoints "
        "DeleteWebhookEndpoint",
    ),
    **_all(
        f"{_GATEWAY}.WebhookService",
        _ADMIN,
        "GetWebhookSecret RotateWebhookSecret PutWebhookEndpoint ListWebhookEndpoints "
        "DeleteWebhookEndpoint",
    ),
    **_all("weir.directory.v1.DirectoryService", _CLUSTER, "Watch"),
    **_all(
        "weir.ratelimiter.v1.RateLimiterService",
        _CLUSTER,
        "Reserve Extend Settle Refund Explain Multiplex ListReservations AdjustLimit",
    ),
    **_all(
        "weir.ratelimiter.v1.LedgerService",
        _CLUSTER,
        "ListRows GetUsage Export EraseTenant GetLedgerStatus",
    ),
    **_all(
        "weir.scheduler.v1.SchedulerService",
        _CLUSTER,
        "Dispatch ConnectWorker ListQueue ListWorkers DrainWorker GetScalingSignals GetPoolStatus",
    ),
    **_all(
        "weir.worker.v1.WorkerService",
        _CLUSTER,
        "Execute Generate Abort ReleaseSession GetTerminalRecord GetLoad GetModelInfo Drain "
        "GetKvMap",
    ),
    # Envoy and KEDA cannot send our secret: off unless they are given an address, or asked for.
    "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit": RpcRow(Door.PRIVATE),
    **_all(
        "externalscaler.ExternalScaler",
        RpcRow(Door.PRIVATE),
        "IsActive StreamIsActive GetMetricSpec GetMetrics",
    ),
}

_OPEN, _KEY = HttpRow(Door.OPEN), HttpRow(Door.TENANT)
_METRICS = HttpRow(Door.TENANT)
"""Operators see all of them with the admin or the cluster secret; `test_metrics_views.py`."""
_PROMPT = {"model": MODEL, "prompt": "hi", "max_tokens": 1}
_TURN = {"model": MODEL, "max_tokens": 1, **_CHAT}


def _with(kind: str, id_field: str, body: dict[str, Any]) -> HttpRow:
    return HttpRow(Door.TENANT, kind, id_field, body)


def _one(kind: str, **more: Any) -> HttpRow:
    return HttpRow(Door.TENANT, kind, **more)


ROUTES: dict[str, HttpRow] = {
    "POST /v1/chat/completions": _with("session", "session_id", _TURN),
    "POST /v1/completions": _with("session", "session_id", _PROMPT),
    "POST /v1/messages": _with("model", "model", _TURN),
    "POST /v1/messages/count_tokens": _with("model", "model", {"model": MODEL, **_CHAT}),
    "POST /v1/tokenize": _with("model", "model", {"model": MODEL, "prompt": "hi"}),
    "POST /v1/detokenize": _with("model", "model", {"model": MODEL, "tokens": [1]}),
    "POST /v1/responses": _with(
        "response", "previous_response_id", {"model": MODEL, "input": "hi", "max_output_tokens": 16}
    ),
    "POST /v1/responses/input_tokens": _with(
        "response", "previous_response_id", {"model": MODEL, "input": "hi"}
    ),
    "GET /v1/responses/{response_id}": _one("response"),
    "DELETE /v1/responses/{response_id}": _one("response"),
    # It was no background response, as its owner is told.
    "POST /v1/responses/{response_id}/cancel": _one("response", owner_gets=("400", "409")),
    "GET /v1/responses/{response_id}/input_items": _one("response"),
    "POST /v1/sessions": _with("model", "model", {"model": MODEL}),
    "GET /v1/sessions": _KEY,
    "GET /v1/sessions/{id}": _one("session"),
    "DELETE /v1/sessions/{id}": _one("session"),
    "POST /v1/files": _KEY,
    "GET /v1/files": _KEY,
    "GET /v1/files/{file_id}": _one("file"),
    "DELETE /v1/files/{file_id}": _one("file"),
    "GET /v1/files/{file_id}/content": _one("file"),
    "POST /v1/jobs": HttpRow(Door.TENANT, body={"body": _TURN}),
    "GET /v1/jobs": _KEY,
    "GET /v1/jobs/{id}": _one("job"),
    "POST /v1/jobs/{id}/cancel": _one("job"),
    "GET /v1/jobs/{id}/events": _one("job"),
    "POST /v1/batches": _with(
        "file",
        "input_file_id",
        {"endpoint": "/v1/chat/completions", "completion_window": "24h"},
    ),
    "GET /v1/batches": _KEY,
    "GET /v1/batches/{batch_id}": _one("batch"),
    "POST /v1/batches/{batch_id}/cancel": _one("batch"),
    "GET /v1/models": _KEY,
    "GET /v1/models/{name:path}": HttpRow(Door.TENANT, "model"),
    "GET /v1/limits": _KEY,
    "GET /v1/requests/{request_id}": _one("request"),
    "GET /healthz": _OPEN,
    "GET /healthz/live": _OPEN,
    "GET /healthz/ready": _OPEN,
    "GET /openapi.json": _OPEN,
    "GET /v1/prefixes": _KEY,
    "PUT /v1/prefixes/{name}": HttpRow(Door.TENANT, body={"text": "hi", "keep_cold": True}),
    "GET /v1/prefixes/{name}": _one("prefix"),
    "DELETE /v1/prefixes/{name}": _one("prefix"),
    "POST /v1/prefixes/{name}/warm": _one("prefix"),
    "POST /v1/embeddings": _with("model", "model", {"model": MODEL, "input": "hi"}),
    "GET /metrics": _METRICS,
}
