"""One trace holds the whole life of a request."""

import secrets
from collections.abc import Iterable

import httpx2
import openai
import pytest
from opentelemetry.sdk.trace import TracerProvider

from tests.e2e.deployment import Deployment
from tests.otlp_sink import OtlpSink, ReceivedSpan
from weir_client.client import AsyncClient
from weir_core.telemetry.span_catalogue import ATTRIBUTES, SPANS

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]

_SECRET_TEXT = "a text that no trace may hold"
_PARENT_ID = "b7ad6b7169203331"
# Each span, the process that writes it, and its parent, which is empty for the caller's.
_TREE = {
    "chat": ("gateway", ""),
    "intake": ("gateway", "chat"),
    "reserve": ("gateway", "chat"),
    "weir.ratelimiter.v1.RateLimiterService/Reserve": ("ratelimiter", "reserve"),
    "queue": ("scheduler", "chat"),
    "attempt": ("gateway", "chat"),
    "worker": ("worker", "attempt"),
    "prefill": ("worker", "worker"),
    "decode": ("worker", "worker"),
    "settle": ("gateway", "chat"),
    "weir.ratelimiter.v1.RateLimiterService/Settle": ("ratelimiter", "settle"),
}


def _named(spans: Iterable[ReceivedSpan], name: str) -> ReceivedSpan:
    """The only span of a name, or whose name begins with that word."""
    found = [span for span in spans if span.name.split(" ")[0] == name]
    assert len(found) == 1, f"{len(found)} spans {name} in {[span.name for span in spans]}"
    return found[0]


async def _whole(spans: OtlpSink, trace_id: str, names: Iterable[str]) -> list[ReceivedSpan]:
    """The trace, once all of those are there: each process exports when it likes."""
    wanted = set(names)

    def there(_: object) -> bool:
        return wanted <= {span.name.split(" ")[0] for span in spans.trace(trace_id)}

    await spans.wait_for(there, timeout_s=30.0)
    return spans.trace(trace_id)


def _check_catalogue(trace: Iterable[ReceivedSpan]) -> None:
    """What the documentation lists is all that there is."""
    known = {form.name for form in SPANS}
    for span in trace:
        told = [span.attributes, *(attributes for _, attributes in span.events)]
        assert {name for each in told for name in each} <= ATTRIBUTES.keys(), span.name
        rpc = span.name.startswith("weir.")
        assert rpc or span.name in known or span.name.startswith("chat "), span.name


async def _chat(
    stack: Deployment, tenant: str, traceparent: str, *, tokens: int = 5, stream: bool = False
) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=stack.base_url, timeout=60) as http:
        return await http.post(
            "/chat/completions",
            json={
                "model": stack.model,
                "messages": [{"role": "user", "content": _SECRET_TEXT}],
                "max_tokens": tokens,
                "stream": stream,
                "seed": 7,
            },
            headers={
                "authorization": f"Bearer {stack.secret(tenant)}",
                "traceparent": traceparent,
            },
        )


async def test_one_trace_from_the_client_to_prefill_decode_and_settle(
    two_versions: Deployment, spans: OtlpSink
) -> None:
    trace_id = secrets.token_hex(16)
    async with openai.AsyncOpenAI(
        base_url=two_versions.base_url, api_key=two_versions.secret("traced")
    ) as client:
        answer = await client.chat.completions.with_raw_response.create(
            model=two_versions.model,
            messages=[{"role": "user", "content": _SECRET_TEXT}],
            max_tokens=5,
            extra_headers={"traceparent": f"00-{trace_id}-{_PARENT_ID}-01"},
        )
    trace = await _whole(spans, trace_id, _TREE)
    ids = {name: _named(trace, name).span_id for name in _TREE} | {"": _PARENT_ID}
    for name, (service, parent) in _TREE.items():
        span = _named(trace, name)
        assert service in span.service, f"{name} is of {span.service}"
        assert span.parent_id == ids[parent], f"{name} is no child of {parent or 'the client'}"
        assert span.resource["weir.tenant.id"] == "traced", name
        assert span.status_code != 2, name
    assert len(trace) == len(_TREE)
    root = _named(trace, "chat")
    assert answer.headers["traceresponse"] == f"00-{trace_id}-{root.span_id}-01"
    told = root.attributes
    assert root.name == f"chat {two_versions.model}"
    assert told["gen_ai.usage.output_tokens"] == 5
    assert told["gen_ai.response.finish_reasons"] == ["length"]
    assert told["gen_ai.provider.name"] == "tokenweir"
    assert told["gen_ai.output.type"] == "text"
    assert told["weir.outcome"] == "OUTCOME_OK"
    attempt = _named(trace, "attempt").attributes
    assert (attempt["server.address"], type(attempt["server.port"])) == ("127.0.0.1", int)
    assert _named(trace, "worker").attributes["gen_ai.latency.time_in_model_prefill"] >= 0  # type: ignore[operator]
    assert _SECRET_TEXT not in repr(trace)
    _check_catalogue(trace)


async def test_what_nobody_records_leaves_no_span_unless_it_is_refused(
    two_versions: Deployment, spans: OtlpSink
) -> None:
    """The caller decided against recording: an answer is silent, a refusal is not."""
    quiet, loud = secrets.token_hex(16), secrets.token_hex(16)
    assert (await _chat(two_versions, "refused", f"00-{quiet}-{_PARENT_ID}-00")).status_code == 200
    refused = await _chat(two_versions, "refused", f"00-{loud}-{_PARENT_ID}-00")
    assert refused.status_code == 429
    reserve = "weir.ratelimiter.v1.RateLimiterService/Reserve"
    trace = await _whole(spans, loud, ["chat", reserve])
    root = _named(trace, "chat")
    assert root.parent_id == _PARENT_ID
    assert _named(trace, reserve).parent_id == root.span_id
    for span in (root, _named(trace, reserve)):
        told = span.attributes
        assert told["weir.limit.ids"] == ["tenant:refused/tokens"], span.name
        assert told["weir.limit.layers"] == ["tenant"], span.name
        assert told["error.type"] == told["weir.reason"] == "TOKEN_LIMIT_EXCEEDED", span.name
        assert span.resource["weir.tenant.id"] == "refused", span.name
    assert "arrived" in [name for name, _ in root.events]
    assert root.status_code == 2
    assert _SECRET_TEXT not in repr(trace)
    _check_catalogue(trace)
    assert spans.trace(quiet) == []


async def test_what_is_refused_before_it_is_understood_has_a_span_too(
    two_versions: Deployment, spans: OtlpSink
) -> None:
    trace_id = secrets.token_hex(16)
    answer = await _chat(two_versions, "traced", f"00-{trace_id}-{_PARENT_ID}-00", tokens=-1)
    assert answer.status_code == 400
    refused = _named(await _whole(spans, trace_id, ["refused"]), "refused")
    assert refused.parent_id == _PARENT_ID
    assert refused.attributes["weir.reason"] == "INVALID_FIELD"
    assert refused.attributes["weir.request.id"] == answer.headers["x-request-id"]


async def test_our_client_carries_the_trace_that_its_program_is_in(
    two_versions: Deployment, spans: OtlpSink
) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("program")
    target, key = two_versions.grpc_address, two_versions.secret("traced")
    async with AsyncClient(target, key) as client:
        with tracer.start_as_current_span("program") as program:
            messages = [{"role": "user", "content": _SECRET_TEXT}]
            answer = await client.complete(two_versions.model, max_new_tokens=3, messages=messages)
        record = await client.get_request(answer.request_id)
    context = program.get_span_context()
    assert record.trace_id == f"{context.trace_id:032x}"
    rpc = "weir.gateway.v1.InferenceService/Generate"
    trace = await _whole(spans, f"{context.trace_id:032x}", [rpc, "chat", "decode", "settle"])
    assert _named(trace, rpc).parent_id == f"{context.span_id:016x}"
    assert _named(trace, "chat").parent_id == _named(trace, rpc).span_id


async def test_the_attempt_of_a_job_links_to_the_trace_that_submitted_it(
    two_versions: Deployment, spans: OtlpSink
) -> None:
    trace_id = secrets.token_hex(16)
    async with httpx2.AsyncClient(base_url=two_versions.base_url, timeout=60) as http:
        answer = await http.post(
            "/chat/completions",
            json={
                "model": two_versions.model,
                "messages": [{"role": "user", "content": _SECRET_TEXT}],
                "max_tokens": 3,
            },
            headers={
                "authorization": f"Bearer {two_versions.secret('traced')}",
                "traceparent": f"00-{trace_id}-{_PARENT_ID}-01",
                "prefer": "respond-async",
            },
        )
    assert answer.status_code == 202
    submitted = _named(await _whole(spans, trace_id, ["submit_job"]), "submit_job")
    assert submitted.attributes["weir.job.id"] == answer.headers["x-weir-job-id"]

    def linked(_: object) -> list[ReceivedSpan]:
        return [span for span in spans.spans if trace_id in span.links]

    await spans.wait_for(lambda seen: bool(linked(seen)), timeout_s=60.0)
    attempt = linked(None)[0]
    assert attempt.name.startswith("chat ")
    assert attempt.parent_id == ""
    assert attempt.trace_id != trace_id
