"""What every door does with a request, in order: key, rate, form, limits."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.telemetry.context import bind_request
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket, RequestGuard
from weir_gateway.degradation.degrader import Arrival, Degrader
from weir_gateway.degradation.rules import may_degrade
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.front_desk import FrontDesk
from weir_gateway.flow.keeping import Keeping
from weir_gateway.flow.trail import Keep, Trail, begin_trail, trail_for
from weir_gateway.flow.turns import Turns
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.preparer import Preparer
from weir_gateway.metrics import GatewayMetrics

_MOST_ON_LOOP = 50_000

Completion = Callable[[GenerationRequest], Awaitable[GenerationRequest]]
"""Adds to a request what only a read of the state can; may raise WeirError."""


class Reception:
    """Takes requests in.

    Args:
        authenticator, guard, preparer, degrader, desk, metrics: see there.
        clock: for ids and moments.
        keep: gets the trail of each request that is refused or reserved.
        reads: the guard of calls that reserve nothing.
        most_s: longest life of a request.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        guard: RequestGuard,
        reads: RequestGuard,
        preparer: Preparer,
        degrader: Degrader,
        desk: FrontDesk,
        metrics: GatewayMetrics,
        clock: Clock,
        keep: Keep,
        most_s: float,
    ) -> None:
        self._authenticator = authenticator
        self._guard = guard
        self._reads = reads
        self._preparer = preparer
        self._degrader = degrader
        self._desk = desk
        self._metrics = metrics
        self._clock = clock
        self._keep = keep
        self._most_s = most_s
        self._turns = Turns()

    def authenticate(self, authorization: str | None) -> Caller:
        """The caller of an `Authorization` header; the call has its id from here on.

        Raises WeirError.
        """
        try:
            caller = self._authenticator.authenticate(authorization)
        except WeirError as error:
            self._metrics.refused(error, "")
            raise
        begin_trail(caller, self._clock, self._keep)
        return caller

    def standing(self, tenant_id: str, key_id: str) -> Caller:
        """The caller of an earlier moment as the directory has it now.

        Raises:
            WeirError: API_KEY_REVOKED, API_KEY_EXPIRED, TENANT_SUSPENDED or
                DIRECTORY_UNAVAILABLE.
        """
        return self._authenticator.standing(tenant_id, key_id)

    def check_rate(self, caller: Caller) -> None:
        """Counts a call that costs work but reserves nothing, apart from those that do.

        Raises:
            LimitExceeded: there were as many such calls as the caller may make requests.
        """
        try:
            self._reads.admit(caller).keep()
        except WeirError as error:
            self._metrics.refused(error, caller.tenant_id)
            raise

    def let_in(self, authorization: str | None) -> Caller:
        """The caller of a call that reserves nothing: counted, and named in logs from here on.

        Raises:
            WeirError: as `authenticate` and `check_rate`.
        """
        caller = self.authenticate(authorization)
        bind_request(tenant_id=caller.tenant_id)
        self.check_rate(caller)
        return caller

    def take_ticket(self, caller: Caller) -> GuardTicket:
        """Counts a request before `admit` does; keep the ticket, give it back or pass it on.

        Raises:
            LimitExceeded: the caller makes too many requests.
        """
        try:
            return self._guard.admit(caller)
        except WeirError as error:
            self._metrics.refused(error, caller.tenant_id)
            raise

    async def admit(
        self,
        caller: Caller,
        parse: Callable[[], GenerationRequest],
        *,
        size: int,
        ticket: GuardTicket | None = None,
        deadline_s: float | None = None,
        complete: Completion | None = None,
        keeping: Keeping | None = None,
    ) -> Admission:
        """Checks the rate before anything else, then the form, then the limits; bursts in parts.

        Args:
            caller: who asks.
            parse: makes the request of what was sent; may raise WeirError.
            size: bytes of what was sent; when large, `parse` runs in a thread, so that others
                are served meanwhile.
            ticket: of `take_ticket`; None to count the request here.
            deadline_s: the client's; None for none.
            complete: run after `parse`, on the loop.
            keeping: says who charges the answer, and gives the request its id; what is kept may
                live as long as `deadline_s` says. None for the front desk.

        Raises:
            WeirError: why it is refused, also because the caller's access has ended since it
                was authenticated; nothing is held then.
        """
        trail = trail_for(
            caller, self._clock, self._keep, "" if keeping is None else keeping.request_id
        )
        try:
            return await self._admit(
                caller,
                parse,
                size=size,
                ticket=ticket or self.take_ticket(caller),
                trail=trail,
                deadline_s=deadline_s,
                complete=complete,
                keeping=keeping,
            )
        except WeirError as error:
            trail.refuse(error)
            raise

    async def _admit(
        self,
        caller: Caller,
        parse: Callable[[], GenerationRequest],
        *,
        size: int,
        ticket: GuardTicket,
        trail: Trail,
        deadline_s: float | None,
        complete: Completion | None,
        keeping: Keeping | None,
    ) -> Admission:
        try:
            await self._turns.take()
            large = size > _MOST_ON_LOOP
            request = await asyncio.to_thread(parse) if large else parse()
            if complete is not None:
                request = await complete(request)
            degrades = keeping is None and not request.embed_lengths
            if degrades:
                request, prepared = await self._degrader.prepare(caller, request, trail)
            else:
                prepared = await self._preparer.prepare(caller, request)
            # The body may have been long in coming, and the key revoked meanwhile.
            self._authenticator.check_standing(caller)
        except BaseException as error:
            ticket.give_back()
            if isinstance(error, WeirError):
                self._metrics.refused(error, caller.tenant_id)
            raise
        life_s = self._most_s if deadline_s is None else deadline_s
        if keeping is None:
            life_s = min(life_s, self._most_s)
            if degrades and may_degrade(caller.policy):
                ends_at = time.monotonic() + life_s
                arrival = Arrival(caller, self.take_ticket, ends_at, trail)
                return await self._degrader.admit(arrival, request, prepared, ticket)
        return await self._desk.admit(
            prepared,
            ticket,
            trail=trail,
            deadline_s=life_s,
            keeping=keeping,
        )
