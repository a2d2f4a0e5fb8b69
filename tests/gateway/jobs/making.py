"""Jobs for tests of the store."""

import orjson

from tests.gateway.jobs.asking import CHAT
from weir_core.clock import Clock
from weir_core.ids import new_id
from weir_gateway.jobs.job import Job


def a_job(clock: Clock, number: int = 0, *, window_ms: int = 3_600_000, **fields: object) -> Job:
    now_ms = clock.now_ms()
    values: dict[str, object] = {
        "id": new_id("job", clock),
        "tenant_id": "acme",
        "user_id": "alice",
        "api_key_id": "key",
        "kind": "chat",
        "model": "tiny",
        "body": orjson.dumps(CHAT),
        "created_ms": now_ms,
        "deadline_ms": now_ms + window_ms,
        "line": number,
    }
    return Job(**(values | fields))  # type: ignore[arg-type]
