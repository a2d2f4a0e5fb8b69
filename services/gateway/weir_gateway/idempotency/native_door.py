"""Native requests with an `idempotency_key`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from google.rpc.status_pb2 import Status

from weir.gateway.v1.inference_service_pb2 import GenerateRequest, GenerateResponse
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_status, to_status
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.ending import cancelled
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.reception import Reception
from weir_gateway.idempotency.claim_store import Claim
from weir_gateway.idempotency.idempotency import Idempotency, has_run
from weir_gateway.idempotency.kept_answer import KeptAnswer, Transcript
from weir_gateway.idempotency.scoped_key import ScopedKey, scoped_key
from weir_gateway.native.answer import Answer
from weir_gateway.native.conversion import accepted_message

_FIELD = "idempotency_key"
_ROUTE = "weir.gateway.v1.InferenceService/Generate"
_LENGTH = 4
_MOST_ON_LOOP = 50_000

Write = Callable[[GenerateResponse], Awaitable[None]]


class NativeIdempotency:
    """Runs a `Generate` once for each key.

    Args:
        idempotency: the claims.
        reception: whose request rate every call counts against, replays included.
    """

    def __init__(self, idempotency: Idempotency, reception: Reception) -> None:
        self._idempotency = idempotency
        self._reception = reception

    @property
    def runs_on(self) -> bool:
        """A request goes on when its client leaves, so that its deadline does not bind it."""
        return self._idempotency.runs_on

    async def serve(
        self,
        request: GenerateRequest,
        caller: Caller,
        write: Write,
        admit: Callable[[GuardTicket], Awaitable[Admission]],
    ) -> None:
        """Answers a request that has a key.

        Args:
            request: as it came.
            caller: who asks.
            write: sends a message to the client.
            admit: passes the ticket on to `Reception.admit`.

        Raises:
            WeirError: of the key, of the refusal, or of the answer, replayed or not.
        """
        key = await _key(request, caller)
        ticket = self._reception.take_ticket(caller)
        try:
            found = await self._idempotency.claim(key)
        except BaseException:
            ticket.keep()
            raise
        if isinstance(found, KeptAnswer):
            ticket.keep()
            await _replay(found, write)
            return
        run = _KeptRun(found, self._idempotency)
        try:
            await run.go(await admit(ticket), write)
        finally:
            run.leave()


class _KeptRun:
    """One run of a request and what is kept of it."""

    def __init__(self, claim: Claim, idempotency: Idempotency) -> None:
        self._claim = claim
        self._idempotency = idempotency
        self._transcript = Transcript(idempotency.most_bytes)
        self._live: LiveRequest | None = None
        self._answer: Answer | None = None
        self._closed = False

    async def go(self, admission: Admission, write: Write) -> None:
        """Writes the answer to the client. Raises WeirError, what the answer ends with."""
        self._live = admission.live
        answer = self._answer = Answer(admission.live)
        accepted = GenerateResponse(accepted=accepted_message(admission.live))
        self._add([accepted])
        await write(accepted)
        while True:
            messages = await self._read(answer)
            if answer.ended:
                await self._close()
            for message in messages:
                await write(message)
            if answer.ended:
                break
        if answer.error is not None:
            raise answer.error

    def leave(self) -> None:
        """The client is served or gone: what is left to do is done without it."""
        if self._closed:
            return
        live = self._live
        if live is not None and not live.ended.done() and not self._idempotency.runs_on:
            live.stop(cancelled())
        self._idempotency.later(self._run_out())

    async def _run_out(self) -> None:
        if self._answer is not None:
            while not self._answer.ended:
                await self._read(self._answer)
        await self._close()

    async def _read(self, answer: Answer) -> list[GenerateResponse]:
        messages = await answer.read()
        self._add(messages)
        return messages

    def _add(self, messages: Iterable[GenerateResponse]) -> None:
        for message in messages:
            if message.WhichOneof("event") == "queued":
                continue
            data = message.SerializeToString()
            self._transcript.add(len(data).to_bytes(_LENGTH, "big") + data)

    async def _close(self) -> None:
        answer = None
        if self._transcript.whole:
            error = None if self._answer is None else self._answer.error
            status = Status() if error is None else to_status(error)
            body = self._transcript.body()
            answer = KeptAnswer(status.code, status.SerializeToString(), body)
        ran = self._live is not None and has_run(self._live)
        await self._idempotency.close(self._claim, answer, ran=ran)
        self._closed = True


async def _key(request: GenerateRequest, caller: Caller) -> ScopedKey:
    def make() -> ScopedKey:
        payload = GenerateRequest()
        payload.CopyFrom(request)
        payload.idempotency_key = ""
        data = payload.SerializeToString(deterministic=True)
        return scoped_key(caller, _ROUTE, request.idempotency_key, data, field=_FIELD)

    return await asyncio.to_thread(make) if request.ByteSize() > _MOST_ON_LOOP else make()


async def _replay(kept: KeptAnswer, write: Write) -> None:
    at = 0
    while at < len(kept.body):
        start = at + _LENGTH
        at = start + int.from_bytes(kept.body[at:start], "big")
        message = GenerateResponse.FromString(kept.body[start:at])
        if message.HasField("accepted"):
            message.accepted.replayed = True
        await write(message)
    status = Status.FromString(kept.head)
    if status.code:
        error = from_status(status)
        raise error or WeirError(Reason.INTERNAL, "the answer that was kept cannot be read")
