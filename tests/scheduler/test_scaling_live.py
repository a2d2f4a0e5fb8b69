"""Scaling signals of a real scheduler: by RPC, as gauges, and as KEDA asks for them."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from google.protobuf import descriptor_pb2
from google.protobuf.duration_pb2 import Duration

from tests.scheduler.live import LiveScheduler, WorkerPeer, default_snapshot, live_scheduler
from tests.scheduler.live import eventually as eventually_true
from weir.keda.v1 import external_scaler_pb2 as keda
from weir.keda.v1.external_scaler_pb2_grpc import ExternalScalerStub
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_core.rpc.channel import ServiceChannel
from weir_scheduler.server.keda.metric import read_trigger
from weir_worker.settings import WorkerSettings

# Signals count from here on: a worker that is silent for so long is lost.
SOON: dict[str, Any] = {
    "worker_loss_s": 0.4,
    "report_interval_s": 0.1,
    "scaling": {"interval_s": 0.05},
}


async def pool_of(live: LiveScheduler, model: str = "m") -> wire.PoolScaling:
    answer = await live.stub.GetScalingSignals(wire.GetScalingSignalsRequest(model=model))
    (pool,) = answer.pools
    return pool


async def beating(worker: WorkerPeer) -> None:
    """Reports as a live worker does, until cancelled."""
    while True:
        await worker.report()
        await asyncio.sleep(0.1)


class Beats:
    """Keeps scripted workers alive inside `async with`."""

    def __init__(self, *workers: WorkerPeer) -> None:
        self._workers = workers

    async def __aenter__(self) -> None:
        self._tasks = [asyncio.create_task(beating(worker)) for worker in self._workers]

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def until_known(live: LiveScheduler) -> None:
    async def known() -> bool:
        answer = await live.stub.GetScalingSignals(wire.GetScalingSignalsRequest(model="m"))
        return [pool.signals.known for pool in answer.pools] == [True]

    await eventually_true(known)


async def test_the_rpc_and_the_gauges_say_the_same() -> None:
    scaling = {"interval_s": 0.05, "max_workers": 7, "target_use": 0.5}
    async with live_scheduler(**{**SOON, "scaling": scaling}) as live:
        worker = await live.worker(start_duration=Duration(seconds=3))
        async with Beats(worker):
            await until_known(live)
            gateway = await live.gateway()
            for number in range(10):
                await gateway.enqueue(f"r{number}")

            async def seen() -> bool:
                return (await pool_of(live)).signals.queued_requests == 2

            await eventually_true(seen)
            pool = await pool_of(live)
            signals, labels = pool.signals, {"model": "m", "pool": "default"}
            assert (signals.workers, signals.running_requests, signals.request_slots) == (1, 8, 8)
            assert signals.start_duration.seconds == 3
            assert (pool.min_workers, pool.max_workers) == (1, 7)
            assert pool.recommendation.workers >= 1
            gauges = {
                "workers": 1, "queued_requests": 2, "running_requests": 8, "request_slots": 8,
                "known": 1, "wanted_workers": pool.recommendation.workers,
            }  # fmt: skip
            for name, value in gauges.items():
                assert live.sample(f"weir_scheduler_scaling_{name}", labels) == value, name


async def test_a_pool_that_says_so_itself_has_bounds_of_its_own() -> None:
    snapshot = default_snapshot()
    pool = snapshot.pools.add(name="default")
    pool.scaling.max_workers = 3
    snapshot.models[0].pool = "default"
    async with live_scheduler(snapshot, **SOON) as live:

        async def bound() -> bool:
            answer = await live.stub.GetScalingSignals(wire.GetScalingSignalsRequest())
            return [pool.max_workers for pool in answer.pools] == [3]

        await eventually_true(bound)


def keda_stub(live: LiveScheduler) -> Any:
    """As KEDA calls: without the cluster secret."""
    channel: ServiceChannel = live.open(None)
    return ExternalScalerStub(channel)


def ref(**metadata: str) -> keda.ScaledObjectRef:
    return keda.ScaledObjectRef(
        name="workers", namespace="default", scaler_metadata={"model": "m", **metadata}
    )


async def test_keda_learns_the_metric_its_target_and_its_value() -> None:
    async with live_scheduler(keda=True, **SOON) as live:
        worker = await live.worker()
        stub = keda_stub(live)
        async with Beats(worker):
            await until_known(live)
            spec = await stub.GetMetricSpec(ref())
            assert [(one.metric_name, one.target_size, one.target_size_float)
                    for one in spec.metric_specs] == [("wanted_workers", 1, 1.0)]  # fmt: skip
            request = keda.GetMetricsRequest(scaled_object_ref=ref(), metric_name="wanted_workers")
            (value,) = (await stub.GetMetrics(request)).metric_values
            assert (value.metric_name, value.metric_value, value.metric_value_float) == (
                "wanted_workers", 1, 1.0,
            )  # fmt: skip
            gateway = await live.gateway()
            for number in range(11):
                await gateway.enqueue(f"r{number}")
            asked = ref(metric="requests", target="2.5")
            spec = await stub.GetMetricSpec(asked)
            assert spec.metric_specs[0].target_size_float == 2.5
            assert spec.metric_specs[0].target_size == 3
            request = keda.GetMetricsRequest(scaled_object_ref=asked, metric_name="requests")

            async def counted() -> bool:
                (value,) = (await stub.GetMetrics(request)).metric_values
                return bool(value.metric_value_float == 11)

            await eventually_true(counted)


async def test_keda_is_told_at_once_when_there_is_work_and_when_there_is_none() -> None:
    async with live_scheduler(keda=True, **SOON) as live:
        worker = await live.worker()
        async with Beats(worker):
            await until_known(live)
            stream = keda_stub(live).StreamIsActive(ref())
            assert [(await stream.read()).result] == [False]
            gateway = await live.gateway()
            await gateway.enqueue("a")
            dispatched = await gateway.dispatched("a")
            assert (await asyncio.wait_for(stream.read(), 10)).result
            assert (await keda_stub(live).IsActive(ref())).result
            await worker.run(dispatched)
            await worker.end(dispatched.attempt)
            await gateway.finish(dispatched)
            assert not (await asyncio.wait_for(stream.read(), 10)).result
            stream.cancel()


async def test_a_model_without_workers_wakes_with_its_first_request() -> None:
    """From zero: nothing serves the model, and one request waits."""
    async with live_scheduler(keda=True, **SOON) as live:
        await until_known(live)
        stub = keda_stub(live)
        assert not (await stub.IsActive(ref())).result
        gateway = await live.gateway()
        await gateway.enqueue("a")

        async def active() -> bool:
            return bool((await stub.IsActive(ref())).result)

        await eventually_true(active)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


async def test_what_a_trigger_says_wrong_is_refused_by_key() -> None:
    async with live_scheduler(keda=True, **SOON) as live:
        stub = keda_stub(live)
        code, text = await refused(stub.IsActive(ref()))
        assert (code, "not known yet" in text) == (grpc.StatusCode.UNAVAILABLE, True)
        await until_known(live)
        for metadata, key in [
            ({"model": ""}, "metadata.model"),
            ({"metric": "speed"}, "metadata.metric"),
            ({"metric": "requests"}, "metadata.target"),
            ({"metric": "requests", "target": "-1"}, "metadata.target"),
            ({"target": "2"}, "metadata.target"),
            ({"pool": "nowhere"}, "metadata.pool"),
            ({"modle": "m"}, "metadata.modle"),
        ]:
            code, text = await refused(stub.IsActive(ref(**metadata)))
            assert (code, text.split(" ")[0]) == (grpc.StatusCode.INVALID_ARGUMENT, key)
        code, _ = await refused(stub.IsActive(ref(model="unknown")))
        assert code is grpc.StatusCode.NOT_FOUND
        request = keda.GetMetricsRequest(scaled_object_ref=ref(), metric_name="requests")
        code, text = await refused(stub.GetMetrics(request))
        assert (code, text.split(" ")[0]) == (grpc.StatusCode.INVALID_ARGUMENT, "metric_name")


async def test_keda_is_served_only_if_asked_for_and_with_a_secret_only_to_who_has_it() -> None:
    async with live_scheduler(**SOON) as live:
        code, _ = await refused(keda_stub(live).IsActive(ref()))
        assert code is grpc.StatusCode.UNIMPLEMENTED
    async with live_scheduler(keda=True, keda_secret="s3cret", **SOON) as live:
        await until_known(live)
        stub = keda_stub(live)
        for metadata in ({}, {"secretFromEnv": "wrong"}):
            code, text = await refused(stub.GetMetricSpec(ref(**metadata)))
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert "s3cret" not in text
        assert (await stub.GetMetricSpec(ref(secretFromEnv="s3cret"))).metric_specs
        # The rest of the port stays closed.
        code, _ = await refused(
            live.open(None).unary_unary(
                "/weir.scheduler.v1.SchedulerService/ListWorkers",
                request_serializer=wire.ListWorkersRequest.SerializeToString,
                response_deserializer=wire.ListWorkersResponse.FromString,
            )(wire.ListWorkersRequest())
        )
        assert code is grpc.StatusCode.UNAUTHENTICATED


def test_the_contract_is_that_of_keda() -> None:
    """Names on the wire and numbers, as github.com/kedacore/keda has them."""
    file = descriptor_pb2.FileDescriptorProto()
    keda.DESCRIPTOR.CopyToProto(file)
    assert file.package == "externalscaler"
    (service,) = file.service
    assert service.name == "ExternalScaler"
    assert {(m.name, m.input_type, m.output_type, m.server_streaming) for m in service.method} == {
        (name, f".externalscaler.{asks}", f".externalscaler.{gets}", name == "StreamIsActive")
        for name, asks, gets in [
            ("IsActive", "ScaledObjectRef", "IsActiveResponse"),
            ("StreamIsActive", "ScaledObjectRef", "IsActiveResponse"),
            ("GetMetricSpec", "ScaledObjectRef", "GetMetricSpecResponse"),
            ("GetMetrics", "GetMetricsRequest", "GetMetricsResponse"),
        ]
    }
    fields = {
        name: {field.json_name: field.number for field in message.fields}
        for name, message in keda.DESCRIPTOR.message_types_by_name.items()
    }
    assert fields == {
        "ScaledObjectRef": {"name": 1, "namespace": 2, "scalerMetadata": 3},
        "IsActiveResponse": {"result": 1},
        "GetMetricSpecResponse": {"metricSpecs": 1},
        "MetricSpec": {"metricName": 1, "targetSize": 2, "targetSizeFloat": 3},
        "GetMetricsRequest": {"scaledObjectRef": 1, "metricName": 2},
        "GetMetricsResponse": {"metricValues": 1},
        "MetricValue": {"metricName": 1, "metricValue": 2, "metricValueFloat": 3},
    }


def test_the_example_for_kubernetes_asks_what_the_scheduler_answers(repo_root: Path) -> None:
    """Its triggers are read as the scheduler reads them; a cluster has not seen it."""
    text = (repo_root / "deploy" / "keda" / "scaledobject.yaml").read_text(encoding="utf-8")
    scaled, deployment = yaml.safe_load_all(text)
    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    for trigger in scaled["spec"]["triggers"]:
        assert trigger["type"] == "external-push"
        read = read_trigger({key: str(value) for key, value in trigger["metadata"].items()})
        assert (read.metric, read.target) == ("wanted_workers", 1.0)
    pod = deployment["spec"]["template"]["spec"]
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert trigger["metadata"]["secretFromEnv"] in environment
    assert pod["terminationGracePeriodSeconds"] > float(environment["WEIR_WORKER__DRAIN_S"])
    known = {f"WEIR_WORKER__{name.upper()}" for name in WorkerSettings.model_fields}
    assert {name for name in environment if name.startswith("WEIR_WORKER__")} <= known
