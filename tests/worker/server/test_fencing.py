"""What a scheduler says that was replaced without knowing it, a worker does not obey."""

from tests.worker.server.support import (
    eventually,
    grant_for,
    open_gateway,
    running_worker,
    scripted_scheduler,
    spec,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.sampling_pb2 import FinishReason
from weir.worker.v1.worker_service_pb2 import ExecuteRequest, StartAttempt

NOT_LEADER = ErrorReason.ERROR_REASON_NOT_LEADER


async def test_a_grant_of_an_older_term_is_refused_and_may_be_tried_again() -> None:
    async with (
        running_worker(scheduler_address="127.0.0.1:1") as worker,
        open_gateway(worker) as gateway,
    ):
        terms = [7, 6, 0, 9, 8]
        wanted = [spec(max_new_tokens=4) for _ in terms]
        starts = [
            StartAttempt(spec=one, grant=grant_for(worker.app.worker_id, one, leader_epoch=term))
            for one, term in zip(wanted, terms, strict=True)
        ]
        await gateway.send(ExecuteRequest(starts=starts))
        ends = []
        for one in wanted:
            key = (one.attempt.request_id, one.attempt.number)
            ends.append((await gateway.ended_answer(key)).terminal)
        refused = [end.error_reason == NOT_LEADER for end in ends]
        assert refused == [False, True, False, False, True]
        assert ends[1].finish_reason == FinishReason.FINISH_REASON_REJECTED
        assert "term 7 has replaced it" in ends[1].error_message


async def test_a_worker_leaves_a_scheduler_of_an_older_term_for_another() -> None:
    """Also its orders: the stream is ended before anything that it sends is read."""
    old, new = scripted_scheduler(), scripted_scheduler()
    old.epoch, new.epoch = 5, 6
    await new.start()
    async with running_worker(scheduler_address=new.address) as worker:
        await eventually(lambda: new.reports)
        link = worker.app.link
        assert link is not None
        port = int(new.address.rpartition(":")[2])
        await new.stop()
        await old.start(port)
        await eventually(lambda: len(old.registrations) > 1)
        assert not link.registered
        assert old.reports == []
        await old.stop()
        await new.start(port)
        await eventually(lambda: link.registered)
    await new.stop()
