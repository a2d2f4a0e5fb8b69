"""The buckets' arithmetic in Lua, on the server, is that of `weir_core.bucket`, to the unit."""

from collections.abc import Iterable

import msgspec
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ratelimiter.valkey import Valkey
from weir_core.bucket import MAX_PERIOD_MS, MAX_UNITS, BucketShape, BucketState
from weir_ratelimiter.domain.change import Bucket
from weir_ratelimiter.store.redis.scripts import Library

PROBE = Library.of(
    ("numbers", "buckets"),
    {
        "probe": """
local answers = {}
for i, case in ipairs(unpack_all(ARGV[1])) do
  local now, capacity, refill, period, stored, debit, credit = unpack(case)
  local level, parts, at = bucket_at(
    pack_row(BUCKET_ROW, unpack(stored)), capacity, refill, period, now)
  level = debited(level, debit)
  level, parts = credited(level, parts, credit, capacity)
  answers[i] = { level, parts, at }
end
return pack(answers)
"""
    },
)
NOW_MS = 1_795_959_445_123

units = st.one_of(
    st.integers(0, 10),
    st.integers(0, 10**6),
    st.integers(0, MAX_UNITS),
    st.integers(MAX_UNITS - 3, MAX_UNITS),
    st.integers(0, 53).map(lambda bits: max(0, 2**bits - 1)),
)
spans = st.one_of(
    st.integers(1, 10),
    st.sampled_from([1_000, 60_000, 86_400_000, MAX_PERIOD_MS]),
    st.integers(1, MAX_PERIOD_MS),
)
moments = st.one_of(st.integers(0, NOW_MS), st.integers(NOW_MS - 100_000, NOW_MS + 100_000))
shapes = st.builds(BucketShape, units, units, spans)


Case = tuple[int, BucketShape, Bucket, int, int]
"""Now, the new shape, the bucket, units to debit, units to credit."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    old = draw(shapes)
    # Debt as deep as the capacity: deeper, the level could leave what is exact.
    level = draw(st.integers(-min(old.capacity, MAX_UNITS - old.capacity), old.capacity))
    state = BucketState(level, draw(st.integers(0, old.period_ms - 1)), draw(moments))
    new = old if draw(st.booleans()) else draw(shapes)
    return NOW_MS, new, Bucket(old, state), draw(units), draw(units)


def in_lua(client: redis.Redis, some: Iterable[Case]) -> object:
    rows = [
        (
            now_ms,
            *(new.capacity, new.refill, new.period_ms),
            (
                *(bucket.state.level, bucket.state.parts, bucket.state.at_ms, 0),
                *(bucket.shape.capacity, bucket.shape.refill, bucket.shape.period_ms),
            ),
            *(debit, credit),
        )
        for now_ms, new, bucket, debit, credit in some
    ]
    answer = client.fcall(PROBE.name_of("probe"), 0, msgspec.msgpack.encode(rows))
    assert isinstance(answer, bytes)
    return msgspec.msgpack.decode(answer)


def in_python(now_ms: int, new: BucketShape, bucket: Bucket, debit: int, credit: int) -> list[int]:
    state = new.debited(bucket.in_shape(new, now_ms).state, debit)
    floored = msgspec.structs.replace(state, level=max(state.level, -MAX_UNITS))
    credited = new.credited(floored, credit)
    return [credited.level, credited.parts, credited.at_ms]


def test_lua_reckons_as_python_does(valkey: Valkey) -> None:
    with redis.Redis(port=valkey.port) as client:
        client.function_load(PROBE.source, replace=True)

        @settings(max_examples=40, deadline=None)
        @given(st.lists(cases(), min_size=10, max_size=25))
        def same(some: list[Case]) -> None:
            assert in_lua(client, some) == [in_python(*case) for case in some]

        same()
