import httpx2
from prometheus_client import Counter, Histogram

from weir_core.process.http import HttpServer
from weir_core.telemetry import metrics
from weir_core.telemetry.metrics import LabelCap, create_registry
from weir_core.telemetry.metrics_app import metrics_app


def test_labels_are_capped_and_keep_their_name() -> None:
    cap = LabelCap(2)
    assert [cap.label(v) for v in ("a", "b", "c", "a", "d", "b")] == [
        "a", "b", "other", "a", "other", "b",
    ]  # fmt: skip


def test_bucket_families_are_sorted_and_fit_a_histogram() -> None:
    registry = create_registry()
    families = [name for name in dir(metrics) if name.endswith("_BUCKETS")]
    assert len(families) >= 5
    for name in families:
        buckets = getattr(metrics, name)
        assert list(buckets) == sorted(set(buckets))
        Histogram(name.lower(), "x", buckets=buckets, registry=registry)


async def test_metrics_and_health_are_served_over_http_in_both_formats() -> None:
    registry = create_registry()
    Counter("weir_things", "Things", registry=registry).inc(3)
    healthy = True
    server = HttpServer(
        metrics_app(registry, lambda: healthy), address="127.0.0.1:0", knob="metrics_address"
    )
    await server.start()
    try:
        async with httpx2.AsyncClient(base_url=f"http://{server.address}") as client:
            text = await client.get("/metrics")
            assert "weir_things_total 3.0" in text.text
            assert "process_resident_memory_bytes" in text.text
            assert text.headers["content-type"].startswith("text/plain")
            accept = {"accept": "application/openmetrics-text; version=1.0.0"}
            openmetrics = await client.get("/metrics", headers=accept)
            assert openmetrics.text.endswith("# EOF\n")
            assert (await client.get("/healthz")).status_code == 200
            healthy = False
            assert (await client.get("/healthz")).status_code == 503
    finally:
        await server.stop()
