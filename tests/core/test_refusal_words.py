"""What limits allow, in words."""

import pytest

from weir_core.errors import Violation
from weir_core.errors.refusal import allowance, noun_of, rate_allowance, refused_for_now, spoken


@pytest.mark.parametrize(
    ("refill", "period_ms", "burst", "resource", "told"),
    [
        (2, 1_000, 4, "requests_per_second", "2 requests per second, burst 4"),
        (600, 60_000, 600, "tokens", "600 tokens per minute"),
        (5, 5_000, 5, "requests_per_5000_ms", "5 requests per 5000 ms"),
        (1_500_000_000, 3_600_000, 2_000_000_000, "cost", "1.5 cost per hour, burst 2"),
    ],
)
def test_a_rate_names_its_period_and_its_burst(
    refill: int, period_ms: int, burst: int, resource: str, told: str
) -> None:
    assert rate_allowance(refill, period_ms, burst, resource) == told


def test_places_and_windows_are_told_in_words() -> None:
    assert allowance(2, "concurrency") == "2 requests at once"
    assert allowance(3, "streams") == "3 streams at once"
    assert allowance(2_500_000_000, "cost_per_month") == "2.5 cost per month"
    assert (spoken("input_tokens"), noun_of("requests_per_minute")) == ("input tokens", "requests")


def test_a_refusal_says_what_is_allowed() -> None:
    violation = Violation(
        limit_id="tenant:acme/rps",
        limit_type="rps",
        resource="requests_per_second",
        layer="tenant",
        limit=4,
        used=4,
        requested=1,
        reset_time_ms=500,
        knob="limit `rps` of tenant acme",
        allowance="2 requests per second, burst 4",
    )
    assert refused_for_now([violation], 0).message.startswith(
        "tenant:acme/rps allows 2 requests per second, burst 4; 4 are used and 1 requested; "
    )
