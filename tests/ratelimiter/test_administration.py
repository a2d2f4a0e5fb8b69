"""Operators: who holds what, and units given to a limit or taken."""

from pathlib import Path
from typing import Any

import pytest

from tests.ratelimiter.account import budget, directory, parallel, tpm
from tests.ratelimiter.test_service import Service, ask, refusal, service, settled
from weir.common.v1.subject_pb2 import Subject
from weir.directory.v1 import directory_pb2
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir_core.errors import InvalidField, Reason
from weir_ratelimiter.domain.change import EventKind
from weir_ratelimiter.wire import subject_from

ACME = Subject(tenant_id="acme", user_id="bob", api_key_id="key1", model="m")
SPENDING = budget(1_000, unit="month", resource=directory_pb2.LIMIT_RESOURCE_TOKENS)
SNAPSHOT = directory(tpm(100), parallel(9), SPENDING)
TPM, BUDGET = "tenant:acme/tpm", "tenant:acme/budget"


def adjustment(**fields: Any) -> pb.AdjustLimitRequest:
    given: dict[str, Any] = {
        "adjustment_id": "a1",
        "subject": ACME,
        "limit_id": TPM,
        "units": 20,
        "note": "goodwill after the outage",
    }
    return pb.AdjustLimitRequest(**(given | fields))


async def page(served: Service, **fields: Any) -> pb.ListReservationsResponse:
    request = pb.ListReservationsRequest(**({"tenant_id": "acme"} | fields))
    reply = await served.stub.ListReservations(request)
    assert isinstance(reply, pb.ListReservationsResponse)
    return reply


async def test_open_reservations_come_oldest_first_in_pages(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        for number in range(3):
            await served.reserve(f"r{number}", prompt_tokens=1, max_new_tokens=1)
            served.account.advance(5)
        ended = await served.reserve("ended", prompt_tokens=1, max_new_tokens=1)
        await served.stub.Settle(settled(ended.record))
        other = Subject(tenant_id="other", user_id="bob", api_key_id="key2", model="m")
        await served.reserve("theirs", subject=other)
        first = await page(served, page_size=2)
        assert [r.request_id for r in first.reservations] == ["r0", "r1"]
        assert first.reservations[0].reserved_output_tokens == 1
        last = await page(served, page_size=2, page_token=first.next_page_token)
        assert [r.request_id for r in last.reservations] == ["r2"]
        assert last.next_page_token == ""
        everything = await page(served)
        assert len(everything.reservations) == 3


async def test_a_page_goes_on_where_the_last_one_ended_whatever_ends_meanwhile(
    tmp_path: Path,
) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        replies = [
            await served.reserve(f"r{number}", prompt_tokens=1, max_new_tokens=1)
            for number in range(4)
        ]
        first = await page(served, page_size=2)
        for reply in replies:
            if reply.reservation_id == first.reservations[1].reservation_id:
                await served.stub.Settle(settled(reply.record))
        last = await page(served, page_token=first.next_page_token)
        seen = {r.request_id for r in (*first.reservations, *last.reservations)}
        assert seen == {"r0", "r1", "r2", "r3"}


async def test_a_goodwill_credit_fills_a_bucket_to_its_capacity_once(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        await served.reserve(prompt_tokens=10, max_new_tokens=40)
        made = await served.stub.AdjustLimit(adjustment())
        assert (made.limit.remaining, made.limit.limit, made.replayed) == (70, 100, False)
        again = await served.stub.AdjustLimit(adjustment())
        assert (again.limit.remaining, again.replayed) == (70, True)
        more = await served.stub.AdjustLimit(adjustment(adjustment_id="a2", units=500))
        assert (more.limit.remaining, more.units) == (100, 30)
        full = await served.stub.AdjustLimit(adjustment(adjustment_id="a3", units=500))
        assert (full.limit.remaining, full.units) == (100, 0)
        once_more = await served.stub.AdjustLimit(adjustment(adjustment_id="a3", units=500))
        assert (once_more.units, once_more.replayed) == (0, True)
        first, second, third = await served.account.events()
        assert (first.kind, first.reservation_id) == (EventKind.GRANT, "a1")
        assert (first.limit_id, first.units) == (TPM, 20)
        assert first.note == "goodwill after the outage"
        assert (second.units, third.units) == (30, 0)


async def test_taken_units_are_debt_that_refill_repays(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        made = await served.stub.AdjustLimit(adjustment(units=-160))
        assert made.limit.remaining == -60
        assert (await refusal(served.stub.Reserve(ask()))).reason is Reason.TOKEN_LIMIT_EXCEEDED
        forgiven = await served.stub.AdjustLimit(adjustment(adjustment_id="a2", units=60))
        assert forgiven.limit.remaining == 0


async def test_a_budget_is_topped_up_until_its_window_ends(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        reply = await served.reserve()
        await served.stub.Settle(settled(reply.record, 10, 20))
        made = await served.stub.AdjustLimit(adjustment(limit_id=BUDGET, units=500))
        assert (made.limit.remaining, made.limit.window) == (1_470, "2023-11")
        served.account.advance(31 * 86_400_000)
        later = await served.stub.Explain(pb.ExplainRequest(subject=ACME))
        [now] = [status for status in later.limits if status.limit_id == BUDGET]
        assert (now.remaining, now.window) == (1_000, "2023-12")


async def test_a_limit_of_a_model_is_adjusted_by_its_alias(tmp_path: Path) -> None:
    snapshot = directory(model=[tpm(50)])
    snapshot.models[0].aliases.append("short")
    async with service(tmp_path, snapshot) as served:
        subject = Subject(tenant_id="acme", model="short")
        request = adjustment(subject=subject, limit_id="model:m/tpm", units=-30)
        assert (await served.stub.AdjustLimit(request)).units == -30


async def test_the_same_id_for_another_adjustment_is_a_conflict(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        await served.stub.AdjustLimit(adjustment())
        for other in ({"units": 21}, {"note": "another"}, {"limit_id": BUDGET}):
            refused = await refusal(served.stub.AdjustLimit(adjustment(**other)))
            assert refused.reason is Reason.IDEMPOTENCY_CONFLICT
        theirs = Subject(tenant_id="other", api_key_id="key2", model="m")
        request = adjustment(subject=theirs, limit_id="tenant:other/tpm")
        assert (await refusal(served.stub.AdjustLimit(request))).reason is Reason.NOT_FOUND


async def test_an_adjustment_outlives_a_crash_and_its_acknowledgement(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        await served.reserve(prompt_tokens=10, max_new_tokens=40)
        await served.stub.AdjustLimit(adjustment())
        store = served.account.store
        await store.acknowledge([entry.id for entry in await store.outbox(9)])
        await served.account.restart(SNAPSHOT)
        await served.account.restart(SNAPSHOT)
        again = await served.account.limiter.adjust(
            "a1", subject_from(ACME), TPM, 20, "goodwill after the outage"
        )
        assert again.replayed
        assert again.state.remaining == 70
        assert await served.account.events() == []


LONG = "x" * 4_096
HOSTILE_IDS = ["", LONG, "Am\u00e9lie", "Ame\u0301lie", "{x}", "a\r\nb", "a\0b", "a b", "\u0430"]
ADJUSTMENTS: list[tuple[dict[str, Any], str]] = [
    *[({"adjustment_id": hostile}, "adjustment_id") for hostile in HOSTILE_IDS],
    *[({"subject": Subject(tenant_id=h)}, "subject.tenant_id") for h in HOSTILE_IDS],
    *[
        ({"subject": Subject(tenant_id="acme", user_id=h)}, "subject.user_id")
        for h in HOSTILE_IDS[1:]
    ],
    ({"limit_id": ""}, "limit_id"),
    ({"limit_id": "a\0b"}, "limit_id"),
    ({"limit_id": LONG}, "limit_id"),
    ({"limit_id": "tenant:acme/parallel"}, "limit_id"),
    ({"limit_id": "tenant:acme/none"}, "limit_id"),
    ({"units": 0}, "units"),
    ({"units": 2**53}, "units"),
    ({"units": -(2**63)}, "units"),
    ({"note": ""}, "note"),
    ({"note": "a\nb"}, "note"),
    ({"note": "x" * 257}, "note"),
]


async def test_hostile_adjustments_are_refused_by_field(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        for fields, field in ADJUSTMENTS:
            refused = await refusal(served.stub.AdjustLimit(adjustment(**fields)))
            assert refused.field == field, fields
            assert len(refused.message) < 400
        assert await served.account.left(TPM) == 100
        assert await served.account.events() == []


async def test_units_are_never_taken_beyond_what_stays_exact(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        most = 2**53 - 1
        await served.stub.AdjustLimit(adjustment(units=-most))
        refused = await refusal(served.stub.AdjustLimit(adjustment(adjustment_id="a2", units=-200)))
        assert isinstance(refused, InvalidField)
        assert refused.field == "units"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        *[({"tenant_id": hostile}, "tenant_id") for hostile in HOSTILE_IDS],
        ({"page_size": -1}, "page_size"),
        ({"page_size": 1_001}, "page_size"),
        ({"page_token": "1"}, "page_token"),
        ({"page_token": LONG}, "page_token"),
        ({"page_token": "1.a\0"}, "page_token"),
        ({"page_token": "9" * 16 + ".rsv"}, "page_token"),
        ({"page_token": "\u0661.rsv"}, "page_token"),
    ],
)
async def test_hostile_pages_are_refused_by_field(
    tmp_path: Path, fields: dict[str, Any], field: str
) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        request = pb.ListReservationsRequest(**({"tenant_id": "acme"} | fields))
        refused = await refusal(served.stub.ListReservations(request))
        assert isinstance(refused, InvalidField)
        assert refused.field == field


async def test_hostile_explanations_and_ends_are_refused_by_field(tmp_path: Path) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        record = (await served.reserve()).record
        for hostile in HOSTILE_IDS[1:]:
            people = [
                (Subject(tenant_id=hostile), "subject.tenant_id"),
                (Subject(tenant_id="acme", user_id=hostile), "subject.user_id"),
                (Subject(tenant_id="acme", api_key_id=hostile), "subject.api_key_id"),
                (Subject(tenant_id="acme", model=hostile), "subject.model"),
            ]
            for who, field in people:
                refused = await refusal(served.stub.Explain(pb.ExplainRequest(subject=who)))
                assert refused.field == field
            request = pb.ExplainRequest(subject=ACME, reservation_id=hostile)
            assert (await refusal(served.stub.Explain(request))).field == "reservation_id"
        for outcome in (99, -1, 2**31 - 1):
            end = settled(record)
            end.outcome = outcome  # type: ignore[assignment]
            assert (await refusal(served.stub.Settle(end))).field == "outcome"
            back = pb.RefundRequest(record=record, outcome=outcome)  # type: ignore[arg-type]
            assert (await refusal(served.stub.Refund(back))).field == "outcome"
        for bad in (b"", b"x", b"\0" * 70_000):
            assert (await refusal(served.stub.Settle(settled(bad)))).field == "record"
            assert (
                await refusal(served.stub.Refund(pb.RefundRequest(record=bad)))
            ).field == "record"


@pytest.mark.parametrize("number", [-1, 2**53, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("field", ["output_tokens", "prompt_tokens", "additional_output_tokens"])
async def test_hostile_extensions_change_nothing(tmp_path: Path, field: str, number: int) -> None:
    async with service(tmp_path, SNAPSHOT) as served:
        reply = await served.reserve()
        news = pb.Extension(record=reply.record, **{field: number})  # type: ignore[arg-type]
        [result] = (await served.stub.Extend(pb.ExtendRequest(extensions=[news]))).results
        assert not result.granted
        assert field in result.message
        assert await served.account.left(TPM) == 70
