"""Requests of two tenants through one gateway: their telemetry is in two stores."""

import json
import logging
from pathlib import Path
from typing import Any

from tests.gateway.harness import MODEL, eventually, running_gateway
from tests.otlp_sink import OtlpSink, ReceivedSpan, otlp_sink
from weir_core.telemetry import names
from weir_core.telemetry.telemetry import setup_telemetry
from weir_gateway.settings import GatewaySettings


async def test_two_tenants_land_in_two_stores(tmp_path: Path) -> None:
    before = logging.getLogger().handlers[:]
    async with otlp_sink() as rest, otlp_sink() as acme, otlp_sink() as globex:
        stores = {
            "acme": {"log_file": f"{tmp_path}/acme.jsonl", "otlp_endpoint": acme.endpoint},
            "globex": {"log_file": f"{tmp_path}/globex.jsonl", "otlp_endpoint": globex.endpoint},
        }
        settings: dict[str, Any] = {"tenant_stores": stores, "otlp_endpoint": rest.endpoint}
        settings["trace_sample_ratio"] = 1.0
        telemetry = setup_telemetry("gateway", GatewaySettings(**settings))
        try:
            async with running_gateway(
                tmp_path, telemetry=telemetry, tenant_stores=stores
            ) as gateway:
                body = {"model": MODEL, "prompt": "hi", "max_tokens": 2}
                for key in (gateway.key, gateway.other_key):
                    header = {"authorization": f"Bearer {key.secret}"}
                    answer = await gateway.http.post("/v1/completions", json=body, headers=header)
                    assert answer.status_code == 200
                await eventually(lambda: not gateway.limiter.open_accounts)
                await gateway.at_rest()
            for tenant, sink in (("acme", acme), ("globex", globex)):
                spans = await sink.wait_for(_whole)
                assert {"reserve", "settle"} < {span.name for span in spans}
                assert {span.attributes[names.TENANT_ID] for span in spans} == {tenant}
                assert {span.trace_id for span in spans}.isdisjoint(_traces(rest))
                lines = _lines(tmp_path / f"{tenant}.jsonl")
                assert "request finished" in {line["event"] for line in lines}
                assert {line["tenant_id"] for line in lines} == {tenant}
        finally:
            telemetry.shutdown()
            for handler in logging.getLogger().handlers[:]:
                handler.close()
            logging.getLogger().handlers[:] = before


def _whole(spans: list[ReceivedSpan]) -> bool:
    return {"reserve", "settle"} <= {span.name for span in spans} and any(
        MODEL in span.name for span in spans
    )


def _traces(sink: OtlpSink) -> set[str]:
    return {span.trace_id for span in sink.spans}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
