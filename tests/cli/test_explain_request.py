"""`weir explain ID`: who is asked, and what is printed."""

import asyncio
import json
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.cli.command import Ended, weir
from tests.gateway.harness import running_gateway
from tests.gateway.insight.asking import ADMIN_SECRET
from weir.gateway.v1.insight_service_pb2 import (
    EventKind,
    Explanation,
    Phase,
    RequestState,
    TimelineEvent,
)
from weir.scheduler.v1.scheduler_service_pb2 import QueueReason
from weir_cli.explanation_text import explanation_text, waterfall

START = 1_767_225_600


def at(seconds: float) -> Timestamp:
    moment = Timestamp()
    moment.FromMicroseconds(round((START + seconds) * 1_000_000))
    return moment


def account() -> Explanation:
    told = Explanation(request_id="req_1", state=RequestState.REQUEST_STATE_ENDED)
    told.subject.tenant_id = "acme"
    told.sentences.append("It was answered in 4.000 s.")
    told.events.extend(
        [
            TimelineEvent(time=at(0), kind=EventKind.EVENT_KIND_ARRIVED),
            TimelineEvent(
                time=at(1),
                kind=EventKind.EVENT_KIND_QUEUED,
                queue_reason=QueueReason.QUEUE_REASON_KV_FULL,
                position=2,
            ),
            TimelineEvent(time=at(3), kind=EventKind.EVENT_KIND_DISPATCHED, worker_id="w-1"),
        ]
    )
    told.phases.extend(
        [
            Phase(name="intake", start_time=at(0), end_time=at(1)),
            Phase(name="queue", start_time=at(1), end_time=at(3), detail="KV_FULL"),
            Phase(name="decode", start_time=at(3), end_time=at(4)),
        ]
    )
    return told


def test_an_account_is_sentences_a_waterfall_and_its_moments() -> None:
    text = explanation_text(account())
    assert text.startswith("request req_1: ended\n  tenant acme\n  arrived 2026-01-01 00:00:00Z")
    assert "- It was answered in 4.000 s." in text
    assert "1000.0 ms  queued      KV_FULL, number 2" in text
    assert "3000.0 ms  dispatched  worker w-1" in text


def test_bars_stand_where_their_part_of_the_time_is() -> None:
    rows = waterfall(account()).splitlines()[1:]
    starts = [(row.index("#"), row.count("#")) for row in rows]
    first = starts[0][0]
    assert [(start - first, length) for start, length in starts] == [(0, 10), (10, 20), (30, 10)]
    assert rows[1].endswith("KV_FULL")


def test_a_part_that_still_lasts_is_open() -> None:
    told = account()
    told.phases[-1].ClearField("end_time")
    last = waterfall(told).splitlines()[-1]
    assert ">" in last


def test_what_is_asked_for_must_be_named() -> None:
    ended = weir("explain")
    assert ended.returncode == 1
    assert "give the id of a request, or a tenant" in ended.stderr


async def test_a_gateway_is_asked_as_its_administrator_or_as_a_caller(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, admin_secret=ADMIN_SECRET) as gateway:
        response = await gateway.chat(max_tokens=0)
        request_id = str(response.headers["x-request-id"])

        async def ask(*more: str, **environment: str) -> Ended:
            arguments = ("explain", request_id, "--address", gateway.app.grpc_address, *more)
            return await asyncio.to_thread(weir, *arguments, **environment)

        admin = await ask(WEIR_ADMIN_SECRET=ADMIN_SECRET)
        assert admin.returncode == 0, admin.stderr
        assert f"request {request_id}: refused" in admin.stdout
        assert "- The field to change is max_tokens." in admin.stdout
        own = await ask("-o", "json", WEIR_API_KEY=gateway.key.secret)
        assert json.loads(own.stdout)["refusal"]["field"] == "max_tokens"
        other = await ask(WEIR_API_KEY=gateway.other_key.secret)
        assert other.returncode == 1
        assert "no gateway remembers such a request" in other.stderr
        nobody = await ask()
        assert nobody.returncode == 1
        assert "WEIR_ADMIN_SECRET set" in nobody.stderr
        assert "WEIR_API_KEY set" in nobody.stderr


@pytest.fixture(autouse=True)
def _no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEIR_ADMIN_SECRET", "WEIR_API_KEY", "WEIR_TARGET"):
        monkeypatch.delenv(name, raising=False)
