"""What a gateway does when a more urgent request needs a place, and what it tells of versions."""

import asyncio

import pytest

from tests.gateway.test_live_request import FakeTimer, Ports, prepared
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, TraceContext
from weir.scheduler.v1 import scheduler_service_pb2 as sched
from weir.worker.v1.worker_service_pb2 import AttemptDelta
from weir_core.clock import ManualClock
from weir_gateway.flow.lifecycle import record_of
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.live_state import LiveBounds, State
from weir_gateway.flow.reservation import Reservation
from weir_gateway.flow.trail import Trail


def started(ports: Ports, *, stream: bool = True, version: str = "") -> LiveRequest:
    """A request whose first attempt was handed to a worker."""
    live = LiveRequest(
        Trail("req_1", prepared(stream=False).caller, ManualClock()),
        prepared(stream=stream),
        scheduler=ports,
        workers=ports,
        clock=ManualClock(),
        call_later=lambda _, then: FakeTimer(then),
        deadline_s=60,
        trace=TraceContext(),
        bounds=LiveBounds(),
    )
    live.on_reserved(Reservation("res", b"r", 5, 1000, [], False))
    dispatch(live, 1, version)
    return live


def dispatch(live: LiveRequest, number: int, version: str = "") -> None:
    attempt = Attempt(request_id="req_1", number=number)
    live.on_dispatched(
        sched.Dispatched(
            attempt=attempt, worker_id="w", worker_address="host:1", model_version=version
        )
    )


def ask(live: LiveRequest, number: int = 1) -> None:
    live.on_requeued(
        sched.Requeued(
            request_id="req_1",
            error_reason=ErrorReason.ERROR_REASON_PREEMPTED,
            attempt=Attempt(request_id="req_1", number=number),
        )
    )


async def test_a_place_is_given_back_and_the_next_attempt_runs() -> None:
    ports = Ports()
    live = started(ports)
    ask(live)
    assert (live.state, live.facts.preemptions) == (State.QUEUED, 1)
    assert ports.aborted == ports.failed == [Attempt(request_id="req_1", number=1)]
    dispatch(live, 2)
    assert live.state is State.STARTED


@pytest.mark.parametrize("stream", [True, False])
async def test_what_has_sampled_a_token_keeps_it(stream: bool) -> None:
    """Nothing is cut, nor is a token computed twice for who does not stream."""
    ports = Ports()
    live = started(ports, stream=stream)
    live.on_delta(1, AttemptDelta(token_ids=[1], text="a", completion_tokens=1))
    ask(live)
    assert (ports.aborted, ports.failed) == ([], [])
    assert live.state is (State.STREAMING if stream else State.STARTED)


async def test_a_question_about_an_older_attempt_is_not_for_the_new_one() -> None:
    ports = Ports()
    live = started(ports)
    ask(live)
    dispatch(live, 2)
    ask(live, 1)
    assert live.state is State.STARTED
    assert len(ports.failed) == 1


async def test_while_no_scheduler_is_there_it_is_queued_anew_with_what_it_lost() -> None:
    ports = Ports()
    live = started(ports)
    ports.epoch = 2
    ask(live)
    assert ports.failed == []
    assert (ports.enqueued[-1].attempts, ports.enqueued[-1].preemptions) == (1, 1)


async def test_the_answer_says_which_version_served() -> None:
    """Of the newest attempt, by the worker; until then the one that was drawn."""
    live = started(Ports(), version="2")
    assert live.model_version == "2"
    assert record_of(live).subject.model_version == "2"
    ask(live)
    dispatch(live, 2, "1")
    assert record_of(live).subject.model_version == "1"
    assert live.prepared.subject.model_version == ""
    await asyncio.sleep(0)
