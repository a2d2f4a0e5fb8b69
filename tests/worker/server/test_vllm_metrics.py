"""The worker's metrics under vLLM's names, where they are asked for."""

from tests.worker.server.support import (
    RunningWorker,
    eventually,
    open_gateway,
    running_worker,
    spec,
)

LABELS = {"model_name": "test-model", "engine": "0"}


def value(worker: RunningWorker, name: str, **labels: str) -> float:
    found = worker.metric(f"vllm:{name}", **LABELS, **labels)
    assert found is not None, name
    return found


async def test_they_agree_with_the_workers_own() -> None:
    async with running_worker(vllm_metrics=True) as worker, open_gateway(worker) as gateway:
        wanted = [spec(prompt=64, max_new_tokens=20, tenant_prefix_tokens=48) for _ in range(2)]
        for each in wanted:
            (key,) = await gateway.start(each)
            await gateway.ended_answer(key)
        assert value(worker, "prompt_tokens_total") == 128
        assert value(worker, "prompt_tokens_cached_total") == 48
        assert value(worker, "generation_tokens_total") == 40
        assert value(worker, "request_success_total", finished_reason="length") == 2
        assert value(worker, "request_success_total", finished_reason="stop") == 0
        for name in (
            "time_to_first_token_seconds",
            "request_time_per_output_token_seconds",
            "e2e_request_latency_seconds",
            "request_queue_time_seconds",
            "request_prefill_time_seconds",
            "request_decode_time_seconds",
            "request_inference_time_seconds",
            "request_prompt_tokens",
            "request_generation_tokens",
        ):
            assert value(worker, f"{name}_count") == 2, name
        assert value(worker, "request_generation_tokens_sum") == 40
        assert value(worker, "time_to_first_token_seconds_sum") <= value(
            worker, "e2e_request_latency_seconds_sum"
        )
        hits = value(worker, "prefix_cache_hits_total")
        assert hits == worker.metric("kv_cache_prefix_hits_total") == 48
        assert value(worker, "prefix_cache_queries_total") >= hits
        assert value(worker, "num_preemptions_total") == 0


async def test_gauges_follow_what_runs() -> None:
    async with (
        running_worker(vllm_metrics=True, null_step_us=20_000, max_running=2) as worker,
        open_gateway(worker) as gateway,
    ):
        keys = await gateway.start(*(spec(max_new_tokens=1000) for _ in range(3)))
        await eventually(lambda: value(worker, "num_requests_running") == 2)
        assert value(worker, "num_requests_waiting") == 1
        assert 0 < value(worker, "kv_cache_usage_perc") < 1
        for key in keys:
            await gateway.abort(key)
        await eventually(lambda: value(worker, "num_requests_running") == 0)
        await eventually(lambda: value(worker, "kv_cache_usage_perc") == 0)
        assert value(worker, "request_success_total", finished_reason="abort") == 3


async def test_they_are_not_there_unasked() -> None:
    async with running_worker() as worker:
        assert "vllm:" not in worker.metrics_text()
