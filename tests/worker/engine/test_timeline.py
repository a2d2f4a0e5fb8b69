"""What a trace shows of an attempt's steps."""

from weir_worker.engine.timeline import MomentKind, Timeline


def test_chunks_and_preemptions_keep_their_order() -> None:
    timeline = Timeline()
    timeline.chunk(10, 20, 512)
    timeline.chunk(20, 30, 88)
    timeline.preempted(40, 605)
    timeline.chunk(50, 60, 605)
    kinds = [moment.kind for moment in timeline.moments]
    chunk = MomentKind.PREFILL_CHUNK
    assert kinds == [chunk, chunk, MomentKind.PREEMPTED, chunk]
    assert [moment.tokens for moment in timeline.moments] == [512, 88, 605, 605]


def test_a_prompt_of_many_chunks_loses_no_token_and_stays_small() -> None:
    timeline = Timeline()
    for number in range(1_000):
        timeline.chunk(number, number + 1, 16)
    assert len(timeline.moments) == 64
    assert sum(moment.tokens for moment in timeline.moments) == 16_000
    assert sum(moment.steps for moment in timeline.moments) == 1_000
    assert timeline.moments[-1].end_us == 1_000


def test_endless_preemptions_stay_bounded() -> None:
    timeline = Timeline()
    for number in range(1_000):
        timeline.preempted(number, 5)
        timeline.chunk(number, number + 1, 5)
    assert len(timeline.moments) == 128
