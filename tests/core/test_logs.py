import io
import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_core.telemetry.context import bind_request
from weir_core.telemetry.logs import get_logger, setup_logs
from weir_core.telemetry.redaction import MASK, mask_keys, redact
from weir_core.telemetry.tracing import Tracing

PROMPT = "my diagnosis is confidential"


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_service_request_tenant_and_trace(log_stream: io.StringIO) -> None:
    bind_request(request_id="req_1", tenant_id="acme")
    with Tracing("t").span("s", parent="") as span:
        get_logger("weir.part").info("dispatched", worker_id="w1", tokens=7, share=0.5, ok=True)
    [line] = lines(log_stream)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "event": "dispatched",
        "level": "info",
        "logger": "weir.part",
        "service": "weir-test",
        "request_id": "req_1",
        "tenant_id": "acme",
        "trace_id": f"{span.get_span_context().trace_id:032x}",
        "span_id": f"{span.get_span_context().span_id:016x}",
        "worker_id": "w1",
        "tokens": 7,
        "share": 0.5,
        "ok": True,
    }


def test_the_standard_library_ends_in_the_same_stream(log_stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("Invalid %s received", "request")
    logging.getLogger("other").warning("with extra", extra={"prompt": PROMPT, "n": 1})
    first, second = lines(log_stream)
    assert (first["event"], first["service"]) == ("Invalid request received", "weir-test")
    assert (second["prompt"], second["n"]) == (MASK, 1)


@dataclass
class Record:
    prompt: str


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": PROMPT},
        {"messages": [{"role": "user", "content": PROMPT}]},
        {"request": {"inner": {"system_prompt": PROMPT}}},
        {"request": Record(PROMPT)},
        {"gen_ai.input.messages": PROMPT},
        {"chunks": [Record(PROMPT), {"text": PROMPT}]},
        {"raw": PROMPT.encode()},
        {"deep": {"a": {"b": {"c": {"d": {"e": {"f": {"g": PROMPT}}}}}}}},
        {"user_text": PROMPT},
        {"Stop": [PROMPT]},
    ],
)
def test_no_prompt_text_is_logged(log_stream: io.StringIO, fields: dict[str, Any]) -> None:
    get_logger("x").info("event", **fields)
    assert PROMPT not in log_stream.getvalue()
    assert lines(log_stream)


SECRET = "tw_live_ab12cd34ef56_0123456789abcdefghijABCDEFGHIJ0123XYZ"


@pytest.mark.parametrize(
    "fields",
    [
        {"authorization": f"Bearer {SECRET}"},
        {"Authorization": SECRET},
        {"x-api-key": SECRET},
        {"headers": {"authorization": SECRET}},
        {"headers": [("x", f"bearer {SECRET}")]},
        {"detail": f"the key {SECRET} is unknown"},
        {"url": f"/v1/models?key={SECRET}"},
        {"dsn": "postgresql://weir:hunter2hunter2@db/weir"},
        {"webhook_secret": "short"},
        {"cluster_token": "short-one"},
        {"jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"},
    ],
)
def test_no_secret_is_logged(log_stream: io.StringIO, fields: dict[str, Any]) -> None:
    get_logger("x").info("event", **fields)
    logged = log_stream.getvalue()
    for secret in (SECRET, SECRET[-20:], "hunter2", "short", "c2lnbmF0dXJl"):
        assert secret not in logged


def test_a_secret_in_the_event_itself_is_masked(log_stream: io.StringIO) -> None:
    get_logger("x").info(f"got {SECRET}")
    logging.getLogger("lib").error("got %s", f"Bearer {SECRET}")
    assert SECRET not in log_stream.getvalue()


def test_an_exception_is_told_by_type_and_place_not_by_its_message(
    log_stream: io.StringIO,
) -> None:
    def fail() -> None:
        try:
            raise KeyError(PROMPT)
        except KeyError as exc:
            raise ExceptionGroup("several", [ValueError(PROMPT)]) from exc

    try:
        fail()
    except ExceptionGroup:
        get_logger("x").exception("failed")
    [line] = lines(log_stream)
    assert PROMPT not in log_stream.getvalue()
    types = [link["type"] for link in line["exception"]]
    assert types == ["builtins.ExceptionGroup", "builtins.ValueError", "builtins.KeyError"]
    assert any("test_logs.py" in f and f.endswith(" fail") for f in line["exception"][0]["frames"])


def test_messages_of_exceptions_are_logged_when_asked_for_but_never_keys(
    log_stream: io.StringIO,
) -> None:
    setup_logs("weir-test", stream=log_stream, exception_messages=True)
    get_logger("x").error("failed", exc_info=ValueError(f"bad shape {SECRET}"))
    [line] = lines(log_stream)
    assert line["exception"][0]["message"].startswith("bad shape")
    assert SECRET not in log_stream.getvalue()


def test_levels_are_obeyed(
    log_stream: io.StringIO,
) -> None:
    setup_logs("weir-test", stream=log_stream, level="WARNING")
    get_logger("x").info("quiet")
    get_logger("x").warning("loud")
    assert [line["event"] for line in lines(log_stream)] == ["loud"]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=9), json_like))
def test_any_fields_can_be_redacted_into_json(fields: dict[str, object]) -> None:
    assert json.loads(json.dumps(redact(fields))).keys() == fields.keys()


def test_the_password_of_a_url_is_masked_with_a_name_before_it_and_without() -> None:
    for url in ("redis://:hunter2@cache:6379/0", "postgresql://weir:hunter2@db/weir"):
        assert "hunter2" not in mask_keys(f"cannot reach {url}")
    assert mask_keys("grpc://[::1]:50051") == "grpc://[::1]:50051"


def test_plain_values_pass_unmasked() -> None:
    plain = "worker w1 joined pool short with 4096 blocks, model smollm2-135m-instruct"
    assert mask_keys(plain) == plain
    for text in ("req_0192f3a1b2c37d4e8f0123456789abcd", "tenant:acme/tpm", "127.0.0.1:50051"):
        assert mask_keys(text) == text
