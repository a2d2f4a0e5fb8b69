"""Execute: many attempts of two gateways on two streams."""

from tests.worker.server.support import open_gateway, running_worker, spec
from weir.common.v1.sampling_pb2 import FinishReason


async def test_two_gateways_share_a_worker() -> None:
    async with (
        running_worker() as worker,
        open_gateway(worker, "gw-1") as first,
        open_gateway(worker, "gw-2") as second,
    ):
        mine = await first.start(*(spec(max_new_tokens=30) for _ in range(8)))
        theirs = await second.start(*(spec(max_new_tokens=30) for _ in range(8)))
        for gateway, keys in ((first, mine), (second, theirs)):
            for key in keys:
                answer = await gateway.ended_answer(key)
                usage = answer.terminal.usage
                assert answer.terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH
                assert len(answer.token_ids) == answer.completion_tokens == 30
                assert (usage.prompt_tokens, usage.completion_tokens) == (20, 30)
                assert usage.total_tokens == 50
                assert len(answer.text) == 30
        assert set(first.answers) == set(mine)
        assert set(second.answers) == set(theirs)
        await worker.kv_is_free()
