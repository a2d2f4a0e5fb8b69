"""One trace holds the whole life of a request."""

import openai
import pytest

from tests.e2e.deployment import Deployment
from tests.otlp_sink import OtlpSink

_TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
_PARENT_ID = "b7ad6b7169203331"
_STAGES = {"chat": "gateway", "reserve": "ratelimiter", "queue": "scheduler",
           "prefill": "worker", "decode": "worker", "settle": "ratelimiter"}  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.asyncio(loop_scope="session")
async def test_one_trace_from_the_client_to_prefill_decode_and_settle(
    two_versions: Deployment, spans: OtlpSink
) -> None:
    secret_text = "a text that no trace may hold"
    async with openai.AsyncOpenAI(
        base_url=two_versions.base_url, api_key=two_versions.secret("traced")
    ) as client:
        await client.chat.completions.create(
            model=two_versions.model,
            messages=[{"role": "user", "content": secret_text}],
            max_tokens=5,
            extra_headers={"traceparent": f"00-{_TRACE_ID}-{_PARENT_ID}-01"},
        )

    def whole(_: object) -> bool:
        # Each process exports when it likes, and two of them have a span of that name.
        seen = [(span.name.lower(), span.service) for span in spans.trace(_TRACE_ID)]
        return all(
            any(stage in name and service in whose for name, whose in seen)
            for stage, service in _STAGES.items()
        )

    await spans.wait_for(whole, timeout_s=30.0)
    trace = spans.trace(_TRACE_ID)
    for stage, service in _STAGES.items():
        found = [s for s in trace if stage in s.name.lower() and service in s.service]
        assert found, f"no {stage} span of the {service} in {[(s.service, s.name) for s in trace]}"
    ids = {span.span_id for span in trace} | {_PARENT_ID}
    assert all(span.parent_id in ids for span in trace), "a span hangs in the air"
    assert sum(span.parent_id == _PARENT_ID for span in trace) == 1
    root = next(span for span in trace if span.parent_id == _PARENT_ID)
    assert root.attributes["gen_ai.usage.output_tokens"] == 5
    assert secret_text not in repr(trace)
