"""What operators see: metrics under their exact names, one trace for each request."""

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from tests.worker.server.support import (
    TRACE_ID,
    RunningWorker,
    eventually,
    open_gateway,
    running_worker,
    spec,
)
from weir.common.v1.sampling_pb2 import SamplingParams
from weir_core.clock import ManualClock
from weir_worker.hit_rate import HitRate

EXACT_NAMES = (
    "kv_cache_hit_rate_session",
    "kv_cache_hit_rate_prefix",
    "kv_cache_bytes_used",
    "kv_cache_evictions_total",
    "prefill_latency_ms_bucket",
    "decode_latency_per_token_ms_bucket",
)


async def test_every_promised_name_is_there() -> None:
    async with running_worker() as worker:
        text = worker.metrics_text()
        for name in EXACT_NAMES:
            assert f"\n{name} " in text or f"\n{name}{{" in text, name


async def test_counters_agree_with_what_was_answered() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        keys = await gateway.start(
            *(spec(prompt=64, max_new_tokens=20, tenant_prefix_tokens=48) for _ in range(4))
        )
        for key in keys:
            await gateway.ended_answer(key)
        (again,) = await gateway.start(spec(prompt=64, max_new_tokens=5, tenant_prefix_tokens=48))
        usage = (await gateway.ended_answer(again)).terminal.usage
        answers = [gateway.answer(key).terminal.usage for key in [*keys, again]]
        computed = sum(u.prompt_tokens - u.cached_prompt_tokens for u in answers)
        cached = sum(u.cached_prompt_tokens for u in answers)
        assert usage.cached_prompt_tokens == 48
        assert worker.metric("weir_worker_prompt_tokens_total", source="computed") == computed
        assert worker.metric("weir_worker_prompt_tokens_total", source="cached") == cached
        assert worker.metric("weir_worker_generation_tokens_total") == 85
        assert worker.metric("weir_worker_attempts_finished_total", reason="length") == 5
        assert worker.metric("prefill_latency_ms_count") == 5
        assert worker.metric("decode_latency_per_token_ms_count") == 5
        per_token = worker.metric("decode_latency_per_token_ms_sum")
        assert per_token is not None
        assert per_token / 5 >= 1.0
        rate = worker.metric("kv_cache_hit_rate_prefix")
        assert rate is not None
        assert 0 < rate < 1
        assert worker.metric("weir_worker_step_seconds_count") == worker.metric(
            "weir_worker_steps_total"
        )


async def test_gauges_return_to_zero_after_all_was_aborted_at_once() -> None:
    async with running_worker(null_step_us=20_000) as worker, open_gateway(worker) as gateway:
        keys = await gateway.start(*(spec(max_new_tokens=1000) for _ in range(20)))
        await gateway.until(lambda: all(gateway.answer(key).token_ids for key in keys))
        assert worker.metric("weir_worker_requests", state="running") == 20
        assert worker.metric("kv_cache_bytes_used") or 0 > 0
        for key in keys:
            await gateway.abort(key)
        await eventually(lambda: all(value == 0 for value in gauges(worker)), 1)
        blocks = sum(
            worker.metric("weir_worker_kv_blocks", state=state) or 0 for state in ("free", "cached")
        )
        assert blocks == 256
        assert worker.metric("weir_worker_attempts_finished_total", reason="abort") == 20


def gauges(worker: RunningWorker) -> list[float | None]:
    return [
        worker.metric("weir_worker_requests", state="running"),
        worker.metric("weir_worker_requests", state="waiting"),
        worker.metric("kv_cache_bytes_used"),
        worker.metric("weir_worker_pending_prefill_tokens"),
    ]


def test_a_hit_rate_is_that_of_the_last_minutes() -> None:
    clock = ManualClock()
    rate = HitRate(clock, window_s=300)
    assert rate.read(0, 0) == 0
    assert rate.read(100, 90) == 0.9
    clock.advance_us(200_000_000)
    assert rate.read(200, 90) == 0.45
    clock.advance_us(200_000_000)
    assert rate.read(300, 90) == 0.0
    clock.advance_us(400_000_000)
    assert rate.read(300, 90) == 0.0


async def test_a_request_leaves_a_worker_span_with_prefill_and_decode_inside() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        sampling = SamplingParams(temperature=0.5, top_p=0.9, seed=3)
        (key,) = await gateway.start(spec(max_new_tokens=30, sampling=sampling))
        await gateway.ended_answer(key)
        spans = {span.name: span for span in worker.spans.get_finished_spans()}
        assert set(spans) == {"worker", "prefill", "decode"}
        root, prefill, decode = spans["worker"], spans["prefill"], spans["decode"]
        assert trace_of(root) == (TRACE_ID, "b7ad6b7169203331")
        assert root.context is not None
        for child in (prefill, decode):
            assert trace_of(child) == (TRACE_ID, f"{root.context.span_id:016x}")
        attributes = dict(root.attributes or {})
        assert attributes["weir.request.id"] == key[0]
        assert attributes["weir.tenant.id"] == "acme"
        assert attributes["gen_ai.request.model"] == "test-model"
        assert attributes["gen_ai.request.max_tokens"] == 30
        assert attributes["gen_ai.request.seed"] == 3
        assert attributes["gen_ai.usage.input_tokens"] == 20
        assert attributes["gen_ai.usage.output_tokens"] == 30
        assert attributes["gen_ai.response.finish_reasons"] == ("length",)
        assert root.status.status_code is StatusCode.UNSET
        assert ends(prefill) <= starts(decode) + 1
        assert ends(decode) - starts(decode) >= 29 * 1_000_000
        assert starts(root) <= starts(prefill)


async def test_chunks_and_preemptions_are_events_of_the_worker_span() -> None:
    async with running_worker(max_step_tokens=128) as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(prompt=300, max_new_tokens=200))
        await gateway.until(lambda: len(gateway.answer(key).token_ids) > 5)
        worker.worker.engine.preempt(key[0])
        await gateway.ended_answer(key)
        spans = {span.name: span for span in worker.spans.get_finished_spans()}
        told = [(e.name, dict(e.attributes or {})) for e in spans["worker"].events]
        names = [name for name, _ in told]
        place = names.index("preempted")
        before, lost, after = told[:place], told[place][1], told[place + 1 :]
        assert sum(int(str(a["weir.step.tokens"])) for _, a in before) == 300
        assert len(before) >= 3
        assert int(str(lost["weir.step.tokens"])) > 300
        assert after
        assert {name for name, _ in before + after} == {"prefill_chunk"}
        times = [event.timestamp for event in spans["worker"].events]
        assert times == sorted(times)
        assert starts(spans["worker"]) <= times[0] <= times[-1] <= ends(spans["worker"])


async def test_a_refused_start_leaves_a_failed_span() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=0))
        await gateway.ended_answer(key)
        (span,) = worker.spans.get_finished_spans()
        assert trace_of(span)[0] == TRACE_ID
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "INVALID_FIELD"


async def test_an_abort_is_no_error_but_says_why() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=1000))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        await gateway.abort(key)
        await gateway.ended_answer(key)
        span = next(s for s in worker.spans.get_finished_spans() if s.name == "worker")
        assert span.status.status_code is StatusCode.UNSET
        assert dict(span.attributes or {})["weir.reason"] == "CANCELLED"


def trace_of(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    assert span.parent is not None
    return f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}"


def starts(span: ReadableSpan) -> int:
    return span.start_time or 0


def ends(span: ReadableSpan) -> int:
    return span.end_time or 0
