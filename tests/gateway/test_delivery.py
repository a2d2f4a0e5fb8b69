import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir_core.errors import LimitExceeded, Reason, Violation
from weir_gateway.flow.delivery import Delivery, Piece, Waiting
from weir_gateway.openai.rate_headers import go_duration, of_refusal, of_statuses


def text_of(taken: Any) -> str:
    return "".join(piece.text for piece in taken.pieces)


async def test_what_came_meanwhile_is_taken_at_once() -> None:
    delivery: Delivery[str] = Delivery(whole=False)
    delivery.note(Waiting(3, 1))
    delivery.note(Waiting(2, 1))
    delivery.push(Piece("a", [1]))
    delivery.push(Piece("b", [2]))
    taken = await delivery.take(0.01)
    assert (taken.waiting, text_of(taken), taken.ending) == (Waiting(2, 1), "ab", None)
    delivery.finish("end")
    assert (await delivery.take(0.01)).ending == "end"


async def test_a_reader_is_woken_and_times_out() -> None:
    delivery: Delivery[str] = Delivery(whole=False)
    assert (await delivery.take(0.01)).pieces == []
    reader = asyncio.create_task(delivery.take(5))
    await asyncio.sleep(0)
    delivery.push(Piece("x", [1]))
    assert text_of(await reader) == "x"


async def test_a_whole_answer_waits_for_the_end() -> None:
    delivery: Delivery[str] = Delivery(whole=True, max_characters=1)
    assert delivery.push(Piece("abc", [1]))
    assert text_of(await delivery.take(0.01)) == ""
    delivery.reset()
    delivery.push(Piece("de", [2]))
    delivery.finish("end")
    taken = await delivery.take(0.01)
    assert (text_of(taken), taken.ending) == ("de", "end")


async def test_a_reader_that_was_cancelled_loses_nothing() -> None:
    delivery: Delivery[str] = Delivery(whole=False)
    reader = asyncio.create_task(delivery.take(5))
    await asyncio.sleep(0)
    reader.cancel()
    delivery.push(Piece("x", [1]))
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert text_of(await delivery.take(0.01)) == "x"


@given(texts=st.lists(st.text(max_size=5), max_size=200), pieces=st.integers(1, 8))
def test_slow_readers_get_larger_pieces_and_the_same_text(texts: list[str], pieces: int) -> None:
    async def run() -> None:
        delivery: Delivery[str] = Delivery(whole=False, max_pieces=pieces)
        for number, text in enumerate(texts):
            assert delivery.push(Piece(text, [number]))
        if not texts:
            return
        taken = await delivery.take(0.01)
        assert len(taken.pieces) <= pieces
        assert text_of(taken) == "".join(texts)
        assert [t for piece in taken.pieces for t in piece.token_ids] == list(range(len(texts)))

    asyncio.run(run())


async def test_a_reader_that_never_reads_is_noticed() -> None:
    delivery: Delivery[str] = Delivery(whole=False, max_characters=10)
    assert delivery.push(Piece("x" * 10, [1]))
    assert not delivery.push(Piece("x", [1]))
    await delivery.take(0.01)
    assert delivery.push(Piece("x" * 10, [1]))


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (120, "120ms"),
        (1_000, "1s"),
        (1_500, "1.5s"),
        (59_999, "59.999s"),
        (60_000, "1m0s"),
        (360_000, "6m0s"),
        (3_600_000, "1h0m0s"),
        (90_061_500, "25h1m1.5s"),
    ],
)
def test_durations_as_go_writes_them(milliseconds: int, text: str) -> None:
    assert go_duration(milliseconds) == text


def test_the_tightest_limit_of_each_resource_is_shown() -> None:
    def status(
        limit_type: str, limit: int | None, remaining: int | None, **more: Any
    ) -> LimitStatus:
        return LimitStatus(limit_type=limit_type, limit=limit, remaining=remaining, **more)

    headers = dict(
        of_statuses(
            [
                status("rps", 10, 9),
                status("rps", 100, 1),
                status("rps", None, None),
                status("tpm", 50, -20),
                status("tpm", 40, 0, shadow=True),
                status("concurrency", 1, 0),
                status("budget", 1_000, None, resource="not_known_yet"),
                status("budget", 1_000, 400, resource="tokens_per_day"),
                status("budget", 10**9, 10**8, resource="cost_per_month"),
            ],
            degraded=True,
            now_us=0,
        )
    )
    assert headers[b"x-ratelimit-limit-requests"] == b"100"
    assert headers[b"x-ratelimit-remaining-requests"] == b"1"
    assert headers[b"x-ratelimit-limit-tokens"] == b"50"
    assert headers[b"x-ratelimit-remaining-tokens"] == b"0"
    assert headers[b"x-ratelimit-mode"] == b"degraded"
    assert headers[b"x-ratelimit-remaining-budget"] == b"100000000"
    assert headers[b"x-ratelimit-resource-budget"] == b"cost_per_month"
    assert len(headers) == 11


def test_a_refusal_shows_each_resource_and_the_limiters_mode() -> None:
    def violation(limit_type: str, limit: int | None, used: int | None) -> Violation:
        return Violation(
            limit_id=f"tenant:acme/{limit_type}",
            limit_type=limit_type,
            resource=limit_type,
            layer="tenant",
            limit=limit,
            used=used,
            requested=5,
            reset_time_ms=1_500,
            knob="",
        )

    violations = [
        violation("concurrency", 1, 1),
        violation("rps", 10, 12),
        violation("tpm", None, None),
        violation("tpm", 50, 48),
    ]
    error = LimitExceeded(Reason.TOKEN_LIMIT_EXCEEDED, "m", violations, retry_after_s=1)
    error.metadata["limiter_mode"] = "degraded"
    headers = dict(of_refusal(error, now_us=1_000_000))
    assert headers == {
        b"x-ratelimit-mode": b"degraded",
        b"x-ratelimit-limit-requests": b"10",
        b"x-ratelimit-remaining-requests": b"0",
        b"x-ratelimit-reset-requests": b"500ms",
        b"x-ratelimit-limit-tokens": b"50",
        b"x-ratelimit-remaining-tokens": b"2",
        b"x-ratelimit-reset-tokens": b"500ms",
    }
