"""Retries of those who were refused together are spread, and nobody's is too early."""

from hypothesis import given
from hypothesis import strategies as st

from weir_ratelimiter.domain.retry_hint import spread


@given(st.floats(0, 1e7), st.text(max_size=40).filter(str.isascii))
def test_a_hint_is_at_most_a_tenth_late_and_the_same_each_time(wait_s: float, name: str) -> None:
    hint = spread(wait_s, name)
    assert wait_s <= hint <= wait_s * 1.1 + 1e-9
    assert hint == spread(wait_s, name)


def test_hints_differ_from_request_to_request() -> None:
    hints = [spread(60, f"r{number}") for number in range(1_000)]
    by_second = [sum(60 + n <= hint < 61 + n for hint in hints) for n in range(6)]
    assert all(120 < count < 220 for count in by_second)
