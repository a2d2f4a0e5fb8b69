"""The heap against a sorted list."""

from hypothesis import given
from hypothesis import strategies as st

from weir_scheduler.queues.keyed_heap import KeyedHeap

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 8), st.integers(0, 5)),
        st.tuples(st.just("discard"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("pop"), st.just(0), st.just(0)),
    ),
    max_size=200,
)


@given(STEPS)
def test_it_behaves_like_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    heap: KeyedHeap[int] = KeyedHeap()
    model: dict[int, tuple[int, int]] = {}
    for at, (step, item, key) in enumerate(steps):
        if step == "put":
            if item not in model or model[item][0] != key:
                model[item] = (key, at)
            heap.put(item, key)
        elif step == "discard":
            assert heap.discard(item) == (model.pop(item, None) is not None)
        elif model:
            first = heap.peek()
            assert first is not None
            heap.discard(first)
            assert first == min(model, key=lambda known: model[known])
            del model[first]
        expected = sorted(model, key=lambda known: model[known])
        assert len(heap) == len(expected)
        assert heap.peek() == (expected[0] if expected else None)
        assert heap.ordered(100) == expected
        assert [heap.rank(known) for known in expected] == list(range(1, len(expected) + 1))


def test_dead_nodes_do_not_pile_up() -> None:
    heap: KeyedHeap[int] = KeyedHeap()
    heap.put(0, 0)
    for key in range(10_000):
        heap.put(1, key + 1)
    assert len(heap._nodes) < 200
