"""The HTTP door: OpenAI's paths, health and metrics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.telemetry.metrics_app import health_route
from weir_gateway.anthropic.count_endpoint import CountEndpoint
from weir_gateway.anthropic.dialect import AnthropicDialect
from weir_gateway.embeddings.desk import EmbeddingDesk
from weir_gateway.embeddings.endpoint import EmbeddingsEndpoint
from weir_gateway.flow.reception import Reception
from weir_gateway.idempotency.http_door import HttpIdempotency
from weir_gateway.intake.model_list import ModelList
from weir_gateway.intake.preparer import Preparer
from weir_gateway.metrics_views import MetricsViews
from weir_gateway.openai.app_pages import AppPages
from weir_gateway.openai.deferral import Deferral
from weir_gateway.openai.dialect import Dialect, OpenAiDialect
from weir_gateway.openai.generation_endpoint import GenerationEndpoint
from weir_gateway.openai.limits_page import LimitsPage
from weir_gateway.openai.origin_header import OriginHeader
from weir_gateway.openai.single_headers import SingleHeaders
from weir_gateway.openai.tokenize_endpoint import TokenizeEndpoint
from weir_gateway.openapi.page import openapi_route

_EXPOSED = (
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "traceresponse",
    "x-should-retry",
    "x-weir-model",
    "x-weir-max-new-tokens",
    "x-weir-priority",
    "x-weir-session-id",
    "x-weir-job-id",
    "location",
    "preference-applied",
    "idempotent-replayed",
    "x-weir-degraded",
    "x-ratelimit-mode",
    *(
        f"x-ratelimit-{what}-{resource}"
        for what in ("limit", "remaining", "reset")
        for resource in ("requests", "tokens", "budget")
    ),
    "x-ratelimit-resource-budget",
    "request-id",
    *(
        f"anthropic-ratelimit-{resource}-{what}"
        for resource in ("requests", "tokens")
        for what in ("limit", "remaining", "reset")
    ),
)


def create_http_app(
    *,
    reception: Reception,
    idempotency: HttpIdempotency,
    preparer: Preparer,
    models: ModelList,
    limits: LimitsPage,
    clock: Clock,
    metrics: MetricsViews,
    not_ready: Callable[[], str],
    max_body: int,
    ping_s: float,
    stall_s: float,
    cors_origins: Sequence[str],
    chat_deferral: Deferral | None = None,
    completion_deferral: Deferral | None = None,
    rooms: Sequence[BaseRoute] = (),
) -> ASGIApp:
    """The ASGI application.

    Args:
        reception: takes requests in.
        idempotency: runs those with a key once.
        preparer: counts tokens.
        models: what `/v1/models` shows.
        limits: what `/v1/limits` shows.
        clock: for ids and headers.
        metrics: what `/metrics` shows, and to whom.
        not_ready: why the process cannot serve; empty when it can.
        max_body: bytes.
        ping_s, stall_s: see `GenerationEndpoint`.
        cors_origins: origins that browsers may call from; `*` for all.
        chat_deferral, completion_deferral: turn calls into jobs; None: none.
        rooms: further routes; their handlers raise WeirError.
    """

    def endpoint(dialect: Dialect, deferral: Deferral | None = None) -> GenerationEndpoint:
        return GenerationEndpoint(
            reception=reception,
            idempotency=idempotency,
            dialect=dialect,
            clock=clock,
            max_body=max_body,
            ping_s=ping_s,
            stall_s=stall_s,
            deferral=deferral,
        )

    chat = endpoint(OpenAiDialect(chat=True), chat_deferral)
    completion = endpoint(OpenAiDialect(chat=False), completion_deferral)
    messages = endpoint(AnthropicDialect())
    parts: Any = {"reception": reception, "preparer": preparer, "clock": clock}
    parts |= {"max_body": max_body, "stall_s": stall_s}
    count, tokenize = CountEndpoint(**parts), TokenizeEndpoint(**parts, reverse=False)
    detokenize = TokenizeEndpoint(**parts, reverse=True)
    desk = EmbeddingDesk(reception, preparer, models)
    embeddings = EmbeddingsEndpoint(
        reception=reception,
        idempotency=idempotency,
        desk=desk,
        clock=clock,
        max_body=max_body,
        stall_s=stall_s,
    )
    pages = AppPages(reception, models, limits, metrics, clock, not_ready)
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/completions", completion, methods=["POST"]),
            Route("/v1/messages", messages, methods=["POST"]),
            Route("/v1/messages/count_tokens", count, methods=["POST"]),
            Route("/v1/embeddings", embeddings, methods=["POST"]),
            Route("/v1/tokenize", tokenize, methods=["POST"]),
            Route("/v1/detokenize", detokenize, methods=["POST"]),
            *rooms,
            Route("/v1/models", pages.list_models),
            Route("/v1/models/{name:path}", pages.get_model),
            Route("/v1/limits", pages.show_limits),
            Route("/healthz/live", pages.live),
            Route("/healthz/ready", pages.ready),
            Route("/metrics", pages.show_metrics),
            openapi_route(),
            health_route(lambda: not not_ready()),
        ],
        exception_handlers={
            WeirError: pages.on_error,
            HTTPException: pages.on_http_error,
            Exception: pages.on_fault,
        },
    )
    # Preflights are answered before any key is asked for.
    browsers = CORSMiddleware(
        app,
        allow_origins=list(cors_origins),
        allow_methods=["GET", "POST", "PUT", "DELETE", "OPTIONS"],
        allow_headers=["*"],
        expose_headers=list(_EXPOSED),
        max_age=600,
    )
    hot = {"/v1/chat/completions": chat, "/v1/completions": completion, "/v1/messages": messages}
    return SingleHeaders(OriginHeader(_Shortcut(browsers, hot)), pages.on_error)


class _Shortcut:
    """Spares the hot paths the router and its middlewares; browsers go the whole way."""

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, ASGIApp]) -> None:
        self.app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None and not any(n == b"origin" for n, _ in scope["headers"]):
                await endpoint(scope, receive, send)
                return
        await self.app(scope, receive, send)
