"""Chat completions and completions that become jobs: by the client's wish, or by policy."""

import asyncio

import orjson

from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.subject_pb2 import RequestClass
from weir_core.errors import Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.ending import StopCause
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.jobs.desk import JobDesk
from weir_gateway.jobs.json_form import job_json
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.jobs.submission import Submission
from weir_gateway.openai.exchange import Exchange

_LOOK_S = 0.02


class JobDeferral:
    """See `Deferral`.

    Args:
        desk, kinds: see there.
        kind: of the jobs that calls become.
        on: whether there is a database to keep them in.
    """

    def __init__(self, desk: JobDesk, kinds: JobKinds, kind: str, *, on: bool) -> None:
        self._desk = desk
        self._kinds = kinds
        self._kind = kind
        self._on = on

    def asked(self, exchange: Exchange) -> bool:
        """Whether the client prefers it (RFC 7240, `respond-async`)."""
        preferences = (exchange.header("prefer") or "").lower().split(",")
        return any(one.partition(";")[0].strip() == "respond-async" for one in preferences)

    def may_defer(self, live: LiveRequest) -> bool:
        """Whether its tenant's policy may defer a call: of class batch, whole, of no session."""
        prepared = live.prepared
        return (
            prepared.request_class == RequestClass.REQUEST_CLASS_BATCH
            and prepared.caller.policy.batch.to_job_after_ms > 0
            and not prepared.streams
            and prepared.session is None
            and self._on
        )

    async def outwaited(self, live: LiveRequest) -> bool:
        """Whether its tenant's policy has deferred the call, which has ended then."""
        loop = asyncio.get_running_loop()
        after_ms = live.prepared.caller.policy.batch.to_job_after_ms
        ends_at = loop.time() + after_ms / 1_000
        while loop.time() < ends_at:
            if live.facts.ever_sent or live.ended.done():
                return False
            await asyncio.wait({live.ended}, timeout=_LOOK_S)
        if live.facts.ever_sent or live.ended.done():
            return False
        # Nothing was sent to a worker, and nothing will be: it is refunded.
        live.stop(_deferred())
        await asyncio.wait({live.ended})
        return True

    async def submit(self, exchange: Exchange, caller: Caller, body: bytes) -> None:
        """Accepts a body as a job and answers 202."""
        submission = Submission(
            kind=self._kind,
            body=body,
            parse=lambda: self._kinds.of(self._kind).parse(body),
            idempotency_key=exchange.header("idempotency-key") or "",
        )
        submitted = await self._desk.submit(caller, submission)
        job = submitted.job
        headers = [
            (b"location", f"/v1/jobs/{job.id}".encode()),
            (b"x-weir-job-id", job.id.encode()),
            (b"x-request-id", job.id.encode()),
        ]
        if self.asked(exchange):
            headers.append((b"preference-applied", b"respond-async"))
        if submitted.replayed:
            headers.append((b"idempotent-replayed", b"true"))
        told = {"job_id": job.id} | job_json(job, self._kinds)
        await exchange.reply(202, orjson.dumps(told), headers)


def _deferred() -> StopCause:
    error = WeirError(Reason.CANCELLED, "the call waited so long that it became a job")
    return StopCause(Outcome.OUTCOME_CANCELLED, error)
