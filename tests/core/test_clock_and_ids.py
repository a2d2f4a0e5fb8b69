import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_core.clock import ManualClock, SystemClock
from weir_core.errors import InvalidField
from weir_core.ids import check_id, new_id, new_request_id, new_secret_id, uuid7_hex


def test_the_system_clock_counts_microseconds() -> None:
    clock = SystemClock()
    assert abs(clock.now_us() - time.time() * 1e6) < 1e6
    first = clock.monotonic_us()
    assert clock.monotonic_us() >= first


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(now_us=10, monotonic_us=5)
    clock.advance_us(7)
    assert (clock.now_us(), clock.monotonic_us()) == (17, 12)
    clock.jump_us(-100)
    assert (clock.now_us(), clock.monotonic_us()) == (-83, 12)
    with pytest.raises(ValueError, match="back"):
        clock.advance_us(-1)


def test_ids_sort_by_time_and_do_not_repeat() -> None:
    clock = ManualClock()
    made = []
    for _ in range(200):
        made.append(new_request_id(clock))
        clock.advance_us(1_000)
    assert made == sorted(made)
    assert len({new_id("x", clock) for _ in range(1_000)}) == 1_000
    assert all(check_id("request_id", one) == one for one in made)
    assert new_secret_id("ses") != new_secret_id("ses")
    assert len(new_secret_id("ses")) >= 36


@given(st.integers(0, 2**58))
def test_a_uuid7_holds_its_version_variant_and_millisecond(now_us: int) -> None:
    digits = uuid7_hex(now_us)
    assert len(digits) == 32
    assert digits[12] == "7"
    assert digits[16] in "89ab"
    assert int(digits[:12], 16) == (now_us // 1_000) % 2**48


@pytest.mark.parametrize("value", ["", "a b", "x\r\ny: 1", "é", "a" * 129, "-a", "a\n", "../x"])
def test_ids_of_callers_that_could_do_harm_are_refused(value: str) -> None:
    with pytest.raises(InvalidField) as caught:
        check_id("request_id", value)
    assert caught.value.field == "request_id"
    assert "1 to 128" in caught.value.bound
