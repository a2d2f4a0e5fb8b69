"""Telemetry of two tenants in two stores, and what spans hold."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from tests.otlp_sink import otlp_sink
from weir_core.config import ServiceSettings, load_settings
from weir_core.errors.startup import StartupError
from weir_core.telemetry import names
from weir_core.telemetry.context import bind_request
from weir_core.telemetry.logs import get_logger, setup_logs
from weir_core.telemetry.redaction import MASK
from weir_core.telemetry.tracing import Tracing
from weir_core.telemetry.tracing_setup import setup_tracing

PROMPT = "my diagnosis is confidential"
KEY = "wr_live_ab12cd34ef56_0123456789abcdefghijABCDEFGHIJ0123XYZ"


def recorded(**tenants: InMemorySpanExporter) -> tuple[Tracing, InMemorySpanExporter]:
    spans = InMemorySpanExporter()
    processors = {tenant: SimpleSpanProcessor(sink) for tenant, sink in tenants.items()}
    return Tracing("t", processor=SimpleSpanProcessor(spans), tenants=processors), spans


def test_nothing_hidden_leaves_in_a_span() -> None:
    tracing, spans = recorded()
    with tracing.span("s", parent="", attributes={"prompt": PROMPT, "tokens": 3}) as span:
        span.set_attribute("gen_ai.input.messages", [PROMPT])
        span.set_attribute("url.full", f"http://x/y?key={KEY}")
        span.set_attribute("note", f"sent {KEY}")
        span.set_attribute("finish", ["stop", "length"])
        span.add_event("seen", {"text": PROMPT, "tokens": 5})
        span.record_exception(ValueError(PROMPT))
        span.set_status(Status(StatusCode.ERROR, f"ValueError: {PROMPT}"))
    [out] = spans.get_finished_spans()
    told = out.to_json()
    for hidden in (PROMPT, KEY, KEY[-20:]):
        assert hidden not in told
    attributes = dict(out.attributes or {})
    assert (attributes["tokens"], attributes["finish"]) == (3, ("stop", "length"))
    assert out.status.description == MASK
    [seen, failed] = out.events
    assert dict(seen.attributes or {}) == {"text": MASK, "tokens": 5}
    assert (failed.attributes or {})["exception.type"] == "ValueError"


def test_an_exception_that_leaves_a_span_is_told_by_its_type() -> None:
    tracing, spans = recorded()
    with pytest.raises(ValueError), tracing.span("s", parent=""):
        raise ValueError(PROMPT)
    [out] = spans.get_finished_spans()
    assert out.status.description == "ValueError"
    assert PROMPT not in out.to_json()


def test_a_span_goes_where_its_tenants_do() -> None:
    acme = InMemorySpanExporter()
    tracing, rest = recorded(acme=acme)
    named = tracing.span("named", parent="", attributes={names.TENANT_ID: "acme"})
    with named, tracing.span("child"):
        tracing.start("grandchild").end()
    bind_request(tenant_id="acme")
    tracing.start("of the task", parent="").end()
    bind_request(tenant_id="globex")
    tracing.start("of another", parent="").end()
    bind_request(tenant_id="")
    tracing.start("of nobody", parent="").end()
    ours = {span.name for span in acme.get_finished_spans()}
    assert ours == {"named", "child", "grandchild", "of the task"}
    assert {span.name for span in rest.get_finished_spans()} == {"of another", "of nobody"}


async def test_two_tenants_and_the_rest_export_to_three_collectors() -> None:
    async with otlp_sink() as rest, otlp_sink() as acme, otlp_sink() as globex:
        tracing = setup_tracing(
            "weir-x",
            endpoint=rest.endpoint,
            tenant_endpoints={"acme": acme.endpoint, "globex": globex.endpoint},
        )
        for tenant in ("acme", "globex", "third"):
            with tracing.span(f"of {tenant}", parent="", attributes={names.TENANT_ID: tenant}):
                tracing.start(f"child of {tenant}").end()
        tracing.shutdown()
        for sink, tenant in ((acme, "acme"), (globex, "globex"), (rest, "third")):
            spans = await sink.wait_for(lambda spans: len(spans) >= 2)
            assert {s.name for s in spans} == {f"of {tenant}", f"child of {tenant}"}


def test_only_a_tenants_endpoint_is_enough_to_record() -> None:
    sink = InMemorySpanExporter()
    tracing = Tracing("t", tenants={"acme": SimpleSpanProcessor(sink)})
    tracing.start("a", parent="", attributes={names.TENANT_ID: "acme"}).end()
    tracing.start("b", parent="").end()
    assert [span.name for span in sink.get_finished_spans()] == ["a"]


def test_two_tenants_and_the_rest_log_into_three_places(tmp_path: Path) -> None:
    with (tmp_path / "rest").open("w+") as rest:
        files = {"acme": str(tmp_path / "acme.jsonl"), "globex": str(tmp_path / "globex.jsonl")}
        setup_logs("weir-test", stream=rest, tenant_files=files)
        log = get_logger("weir.x")
        log.info("named", tenant_id="acme")
        bind_request(tenant_id="globex", request_id="req_1")
        log.error("failed", exc_info=ValueError(PROMPT))
        logging.getLogger("lib").warning("of a library")
        bind_request(tenant_id="third")
        log.info("third")
        bind_request(tenant_id="", request_id="")
        log.info("nobody")
        setup_logs("weir-test")
        acme, globex = (read(Path(path)) for path in files.values())
        assert [line["event"] for line in acme] == ["named"]
        assert [line["event"] for line in globex] == ["failed", "of a library"]
        assert all(line["tenant_id"] == "globex" for line in globex)
        assert PROMPT not in json.dumps(globex)
        assert [line["event"] for line in read(tmp_path / "rest")] == ["third", "nobody"]
        assert Path(files["acme"]).stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_rotated_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "acme.jsonl"
    setup_logs("weir-test", tenant_files={"acme": str(path)})
    get_logger("x").info("before", tenant_id="acme")
    path.rename(tmp_path / "acme.jsonl.1")
    get_logger("x").info("after", tenant_id="acme")
    setup_logs("weir-test")
    assert [line["event"] for line in read(tmp_path / "acme.jsonl.1")] == ["before"]
    assert [line["event"] for line in read(path)] == ["after"]


def test_a_line_that_cannot_be_written_is_told_to_nobody_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    setup_logs("weir-test", tenant_files={"acme": "/dev/full"})
    get_logger("x").info("event", tenant_id="acme", worker_id="of acme alone")
    setup_logs("weir-test")
    told = capsys.readouterr().err
    assert "tenant_log_lost" in told
    assert "of acme alone" not in told


def test_a_file_whose_folder_was_away_takes_lines_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    setup_logs("weir-test", tenant_files={"acme": str(folder / "log.jsonl")})
    shutil.rmtree(folder)
    get_logger("x").info("lost", tenant_id="acme")
    folder.mkdir()
    get_logger("x").info("kept", tenant_id="acme")
    setup_logs("weir-test")
    assert "tenant_log_lost" in capsys.readouterr().err
    assert [line["event"] for line in read(folder / "log.jsonl")] == ["kept"]


def test_a_file_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    missing = str(tmp_path / "no" / "such" / "folder")
    with pytest.raises(StartupError, match=r"tenant_stores\.acme\.log_file .* cannot be written"):
        setup_logs("weir-test", tenant_files={"acme": missing})
    setup_logs("weir-test")


def test_stores_are_settings(tmp_path: Path) -> None:
    config = tmp_path / "x.yaml"
    config.write_text("tenant_stores: {acme: {log_file: /a, otlp_endpoint: 'http://b:4317'}}")
    settings = load_settings(ServiceSettings, ["--config", str(config)])
    assert settings.tenant_stores["acme"].log_file == "/a"
    config.write_text("tenant_stores: {acme: {logfile: /a}}")
    with pytest.raises(StartupError, match=r"tenant_stores.acme.logfile is no setting"):
        load_settings(ServiceSettings, ["--config", str(config)])


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
