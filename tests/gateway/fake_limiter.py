# ruff: noqa: N802
"""The ratelimiter, played by a real gRPC server that does as a test tells it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from tests.gateway.fake_ledger import FakeLedger
from tests.gateway.fake_server import FakeServer, not_played, wire_reason
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as rl
from weir.ratelimiter.v1.ledger_service_pb2_grpc import add_LedgerServiceServicer_to_server
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import (
    RateLimiterServiceServicer,
    add_RateLimiterServiceServicer_to_server,
)
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_core.errors.status import to_refusal
from weir_core.telemetry.tracing import Tracing
from weir_ratelimiter.multiplex import AccountStreams


@dataclass
class Account:
    """One reservation as the fake limiter saw it."""

    request: rl.ReserveRequest
    reservation_id: str
    settles: list[rl.SettleRequest] = field(default_factory=list)
    refunds: list[rl.RefundRequest] = field(default_factory=list)
    extensions: list[rl.Extension] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return not self.settles and not self.refunds


class FakeLimiter(RateLimiterServiceServicer):
    """Admits everything but for what a test refuses; remembers everything."""

    AdjustLimit = staticmethod(not_played)
    ListReservations = staticmethod(not_played)

    def __init__(self) -> None:
        self.reset()
        self._ledger = FakeLedger(lambda: self.accounts.values())
        self.server = FakeServer(self._add_to)
        self._streams = AccountStreams(self, Tracing("fake"))

    def _add_to(self, server: grpc.aio.Server) -> None:
        add_RateLimiterServiceServicer_to_server(self, server)
        add_LedgerServiceServicer_to_server(self._ledger, server)

    async def Multiplex(  # type: ignore[override]
        self, request_iterator: AsyncIterator[rl.MultiplexRequest], context: Any
    ) -> None:
        await self._streams.serve(request_iterator, context)

    def reset(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.refuse: Callable[[rl.ReserveRequest], WeirError | None] = lambda _: None
        self.refuse_extension: Callable[[rl.Extension], WeirError | None] = lambda _: None
        self.settle_failures = 0
        self.explained: list[rl.ExplainRequest] = []
        self.explanation = rl.ExplainResponse()
        self.reserve_gate: asyncio.Event | None = None
        self.answer_gate: asyncio.Event | None = None
        self.reserving = 0
        self.reserve_output: int | None = None
        self.reserved_output: dict[str, int] = {}
        self.concurrency: int | None = None

    @property
    def open_accounts(self) -> list[Account]:
        return [account for account in self.accounts.values() if account.open]

    @property
    def closings(self) -> list[int]:
        """How often each reservation was closed; every one must be 1 at rest."""
        return [len(a.settles) + len(a.refunds) for a in self.accounts.values()]

    def only(self) -> Account:
        (account,) = self.accounts.values()
        return account

    async def Reserve(self, request: rl.ReserveRequest, context: Any) -> rl.ReserveResponse:
        if self.reserve_gate is not None:
            self.reserving += 1
            await self.reserve_gate.wait()
            self.reserving -= 1
        error = self.refuse(request)
        if error is not None:
            raise error
        if self.concurrency is not None and len(self.open_accounts) >= self.concurrency:
            raise WeirError(
                Reason.CONCURRENCY_LIMIT_EXCEEDED, "too many at once", retry_after_s=1.0
            )
        reservation_id = f"res_{request.request_id}"
        self.accounts.setdefault(reservation_id, Account(request, reservation_id))
        output = self.reserve_output or request.max_new_tokens
        self.reserved_output[reservation_id] = output
        if self.answer_gate is not None:
            await self.answer_gate.wait()
        response = rl.ReserveResponse(
            reservation_id=reservation_id,
            record=reservation_id.encode(),
            reserved_prompt_tokens=request.prompt_tokens,
            reserved_output_tokens=output,
            limiter_mode=rl.LimiterMode.LIMITER_MODE_ENFORCED,
        )
        for limit_type, limit, remaining in (("rps", 100, 40), ("tpm", 10_000, 9_000)):
            status = response.limits.add(
                limit_id=f"tenant:acme/{limit_type}",
                limit_type=limit_type,
                layer="tenant",
                limit=limit,
                remaining=remaining,
            )
            status.reset_time.GetCurrentTime()
        return response

    async def Extend(self, request: rl.ExtendRequest, context: Any) -> rl.ExtendResponse:
        return rl.ExtendResponse(results=[self._extend(e) for e in request.extensions])

    async def Explain(self, request: rl.ExplainRequest, context: Any) -> rl.ExplainResponse:
        self.explained.append(request)
        return self.explanation

    async def Settle(self, request: rl.SettleRequest, context: Any) -> rl.SettleResponse:
        self._maybe_fail()
        account = self.accounts[request.record.decode()]
        account.settles.append(request)
        return rl.SettleResponse()

    async def Refund(self, request: rl.RefundRequest, context: Any) -> rl.RefundResponse:
        self._maybe_fail()
        account = self.accounts[request.record.decode()]
        account.refunds.append(request)
        return rl.RefundResponse()

    def _maybe_fail(self) -> None:
        if self.settle_failures:
            self.settle_failures -= 1
            raise WeirError(Reason.LIMITER_UNAVAILABLE, "the test has no limiter now")

    def _extend(self, extension: rl.Extension) -> rl.ExtensionResult:
        reservation_id = extension.record.decode()
        self.accounts[reservation_id].extensions.append(extension)
        error = self.refuse_extension(extension)
        reserved = self.reserved_output[reservation_id]
        if error is None:
            wanted = extension.output_tokens + extension.additional_output_tokens
            reserved = self.reserved_output[reservation_id] = max(reserved, wanted)
        refusal = to_refusal(error) if isinstance(error, LimitExceeded) else None
        return rl.ExtensionResult(
            reservation_id=reservation_id,
            granted=error is None,
            reserved_output_tokens=reserved,
            error_reason=wire_reason(None if error is None else error.reason),
            message="" if error is None else error.message,
            refusal=refusal,
        )
