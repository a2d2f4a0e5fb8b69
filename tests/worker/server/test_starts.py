"""What a start may ask for, and who may ask: refusals are terminal records on the stream."""

import dataclasses

import pytest

from tests.worker.server.support import (
    CLOCK,
    grant_for,
    new_attempt,
    open_gateway,
    running_worker,
    spec,
)
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, SignedGrant
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.worker.v1.worker_service_pb2 import ExecuteRequest, StartAttempt
from weir_core.clock import ManualClock
from weir_core.errors import WeirError
from weir_worker.start_check import ServedModel, StartCheck

MODEL = ServedModel("test-model", vocab_size=259, max_context=2048, tokenizer_fingerprint=b"f" * 32)
NAN = float("nan")

BAD = [
    ({"attempt": Attempt(request_id="", number=1)}, "attempt.request_id", "''", "1 to 128"),
    ({"attempt": Attempt(request_id="a b", number=1)}, "attempt.request_id", "'a b'", "1 to 128"),
    ({"attempt": Attempt(request_id="r", number=0)}, "attempt.number", "0", "1 to"),
    ({"tenant": ""}, "tenant_id", "''", "1 to 128"),
    ({"tenant": "a\nb"}, "tenant_id", "'a\\nb'", "1 to 128"),
    ({"prompt": []}, "prompt_token_ids", "[]", "1 to 2047"),
    ({"prompt": [1, 259]}, "prompt_token_ids[1]", "259", "0 to 258"),
    ({"prompt": [1, -1]}, "prompt_token_ids[1]", "-1", "0 to 258"),
    ({"max_new_tokens": 0}, "max_new_tokens", "0", "at least 1"),
    ({"max_new_tokens": -5}, "max_new_tokens", "-5", "at least 1"),
    ({"tenant_prefix_tokens": 21}, "tenant_prefix_tokens", "21", "0 to 20"),
    ({"tenant_prefix_tokens": -1}, "tenant_prefix_tokens", "-1", "0 to 20"),
    ({"priority": 101}, "priority", "101", "0 to 100"),
    ({"private_scope": "s" * 129}, "private_scope", "sss", "at most 128"),
    ({"sampling": SamplingParams(temperature=NAN)}, "sampling.temperature", "nan", "from 0 to 2"),
    ({"sampling": SamplingParams(temperature=2.1)}, "sampling.temperature", "2.1", "from 0 to 2"),
    ({"sampling": SamplingParams(top_p=0)}, "sampling.top_p", "0.0", "above 0"),
    ({"sampling": SamplingParams(top_k=-2)}, "sampling.top_k", "-2", "(off)"),
    ({"sampling": SamplingParams(top_k=260)}, "sampling.top_k", "260", "1 to 259"),
    ({"sampling": SamplingParams(stop=[""])}, "sampling.stop[0]", "0 characters", "1 to 256"),
    ({"sampling": SamplingParams(stop=["x"] * 17)}, "sampling.stop", "17", "at most 16"),
    ({"sampling": SamplingParams(stop_token_ids=[300])}, "stop_token_ids[0]", "300", "0 to 258"),
    ({"sampling": SamplingParams(stop_token_ids=[1] * 65)}, "stop_token_ids", "65", "at most 64"),
    ({"tokenizer_fingerprint": b"g" * 32}, "tokenizer_fingerprint", "67676767", "66666666"),
]


@pytest.mark.parametrize(("fields", "field", "value", "bound"), BAD)
def test_a_field_out_of_bounds_is_named_with_value_and_bound(
    fields: dict[str, object], field: str, value: str, bound: str
) -> None:
    with pytest.raises(WeirError) as refused:
        StartCheck(MODEL, CLOCK).submit_of(spec(**fields))  # type: ignore[arg-type]
    message = refused.value.message
    assert field in message
    assert value in message
    assert bound in message


def test_the_prompt_must_leave_room_for_one_token() -> None:
    check = StartCheck(MODEL, CLOCK)
    assert len(check.submit_of(spec(prompt=2047)).prompt_token_ids) == 2047
    with pytest.raises(WeirError, match="the prompt has 2048 tokens; at most 2047") as refused:
        check.submit_of(spec(prompt=2048))
    assert refused.value.reason == "CONTEXT_LENGTH_EXCEEDED"


def test_a_dedicated_worker_serves_one_tenant() -> None:
    check = StartCheck(dataclasses.replace(MODEL, only_tenant="acme"), CLOCK)
    assert check.submit_of(spec(tenant="acme")).tenant == "acme"
    with pytest.raises(WeirError, match="dedicated to another tenant") as refused:
        check.submit_of(spec(tenant="rival"))
    assert refused.value.reason == "PERMISSION_DENIED"
    assert "acme" not in refused.value.message


def test_times_become_those_of_the_engine() -> None:
    clock = ManualClock(now_us=1_000_000_000, monotonic_us=50)
    wanted = spec()
    wanted.deadline.FromMicroseconds(1_000_500_000)
    wanted.arrival_time.FromMicroseconds(999_000_000)
    submit = StartCheck(MODEL, clock).submit_of(wanted)
    assert submit.deadline_us == 500_050
    assert submit.arrival_us == 999_000_000
    wanted.deadline.FromMicroseconds(999_000_000)
    with pytest.raises(WeirError, match=r"passed 1\.000 s before") as refused:
        StartCheck(MODEL, clock).submit_of(wanted)
    assert refused.value.reason == "DEADLINE_EXCEEDED"
    wanted.deadline.seconds = 2**62
    with pytest.raises(WeirError, match=r"deadline\.seconds is 4611686018427387904"):
        StartCheck(MODEL, clock).submit_of(wanted)


def test_absent_sampling_fields_take_the_defaults() -> None:
    submit = StartCheck(MODEL, CLOCK).submit_of(spec(sampling=SamplingParams(seed=7)))
    sampling = submit.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed) == (1, 1, 0, 7)


async def test_refusals_come_on_the_stream_and_the_next_start_works() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        bad = [spec(max_new_tokens=-1), spec(model="other"), spec(prompt=5000)]
        good = spec()
        keys = await gateway.start(*bad, good)
        records = [(await gateway.ended_answer(key)).terminal for key in keys]
        assert [record.error_reason for record in records] == [
            ErrorReason.ERROR_REASON_INVALID_FIELD,
            ErrorReason.ERROR_REASON_MODEL_NOT_FOUND,
            ErrorReason.ERROR_REASON_CONTEXT_LENGTH_EXCEEDED,
            ErrorReason.ERROR_REASON_UNSPECIFIED,
        ]
        for record in records[:3]:
            assert record.finish_reason == FinishReason.FINISH_REASON_REJECTED
            assert record.error_message
            assert record.usage.total_tokens == 0
            assert record.end_time.seconds
        assert records[3].finish_reason == FinishReason.FINISH_REASON_LENGTH
        assert worker.metric("weir_worker_starts_refused_total", reason="invalid_field") == 1


async def test_what_can_never_fit_the_cache_is_refused_by_the_engine() -> None:
    async with running_worker(num_blocks=8) as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(prompt=100, max_new_tokens=100))
        record = (await gateway.ended_answer(key)).terminal
        assert record.finish_reason == FinishReason.FINISH_REASON_REJECTED
        assert record.error_reason == ErrorReason.ERROR_REASON_REQUEST_TOO_LARGE


async def test_grants_are_verified() -> None:
    async with (
        running_worker(scheduler_address="127.0.0.1:1") as worker,
        open_gateway(worker) as gateway,
        open_gateway(worker) as genuine,
    ):
        worker_id = worker.app.worker_id
        wanted = [spec(max_new_tokens=8) for _ in range(8)]
        forged = grant_for(worker_id, wanted[0], secret="y" * 32)
        changed = grant_for(worker_id, wanted[1])
        changed.grant += b"\x00"
        grants = [
            forged,
            changed,
            grant_for(worker_id, wanted[2], valid_s=-1),
            grant_for("another-worker", wanted[3]),
            grant_for(worker_id, wanted[4], tenant_id="rival"),
            grant_for(worker_id, wanted[5], attempt=new_attempt()),
            grant_for(worker_id, wanted[6], max_new_tokens=7),
            SignedGrant(),
        ]
        starts = [
            StartAttempt(spec=one, grant=grant) for one, grant in zip(wanted, grants, strict=True)
        ]
        await gateway.send(ExecuteRequest(starts=starts))
        for number, one in enumerate(wanted):
            key = (one.attempt.request_id, one.attempt.number)
            record = (await gateway.ended_answer(key)).terminal
            expected = (
                ErrorReason.ERROR_REASON_INVALID_FIELD
                if number == 6
                else ErrorReason.ERROR_REASON_GRANT_INVALID
            )
            assert record.error_reason == expected, record.error_message
            assert "rival" not in record.error_message
        # A forged start says nothing about the attempt: the genuine one still runs.
        (key,) = await genuine.start(wanted[0])
        assert len((await genuine.ended_answer(key)).token_ids) == 8


async def test_stale_attempts_are_refused() -> None:
    async with (
        running_worker() as worker,
        open_gateway(worker, "gw-1") as gateway,
        open_gateway(worker, "gw-2") as other,
    ):
        second = new_attempt(number=2)
        (key,) = await gateway.start(spec(second, max_new_tokens=1000))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        for number, why in ((1, "attempt 2 has been here"), (2, "runs here already")):
            stale = Attempt(request_id=second.request_id, number=number)
            (again,) = await other.start(spec(stale))
            record = (await other.ended_answer(again)).terminal
            assert record.error_reason == ErrorReason.ERROR_REASON_STALE_ATTEMPT
            assert why in record.error_message
        await gateway.abort(key)
        await gateway.ended_answer(key)
        (again,) = await other.start(spec(second))
        await other.until(lambda: len(other.answer(again).terminals) == 2)
        assert "has ended here already" in other.answer(again).terminals[-1].error_message
        # The refused doubles have not replaced the record of what ran.
        assert worker.worker.attempts.record(*key).usage.completion_tokens > 0


async def test_a_start_sent_twice_on_one_stream_runs_once() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        wanted = spec(max_new_tokens=50)
        await gateway.start(wanted, wanted)
        (key,) = await gateway.start(wanted)
        answer = await gateway.ended_answer(key)
        assert len(answer.token_ids) == 50
        assert worker.metric("weir_worker_attempts_finished_total", reason="length") == 1


async def test_a_newer_attempt_ends_the_older_one() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        first = new_attempt(number=1)
        (old,) = await gateway.start(spec(first, max_new_tokens=1500))
        await gateway.until(lambda: gateway.answer(old).token_ids)
        newer = Attempt(request_id=first.request_id, number=2)
        (new,) = await gateway.start(spec(newer, max_new_tokens=10))
        record = (await gateway.ended_answer(old)).terminal
        assert record.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert record.error_reason == ErrorReason.ERROR_REASON_STALE_ATTEMPT
        assert len((await gateway.ended_answer(new)).token_ids) == 10
        await worker.kv_is_free()


async def test_no_more_attempts_than_allowed() -> None:
    async with (
        running_worker(max_concurrent_requests=2) as worker,
        open_gateway(worker) as gateway,
    ):
        *kept, refused = await gateway.start(*(spec(max_new_tokens=100) for _ in range(3)))
        record = (await gateway.ended_answer(refused)).terminal
        assert record.error_reason == ErrorReason.ERROR_REASON_QUEUE_FULL
        assert "max_concurrent_requests is 2" in record.error_message
        for key in kept:
            assert len((await gateway.ended_answer(key)).token_ids) == 100
