"""Whether what clients were told is what the model that computes nothing says, each token once."""

from collections.abc import Sequence

from tests.e2e.deployment import Deployment
from tests.e2e.streams import Seen
from tests.e2e.wait import until

_ALPHABET = b"abcdefghijklmnopqrstuvwxyz "


def told_once(seen: Sequence[Seen]) -> None:
    """Each stream is the beginning of the one answer: nothing twice, nothing left out."""
    wrong = {
        one.request_id: bytes(one.ids)
        for one in seen
        if bytes(one.ids) != bytes(_ALPHABET[at % len(_ALPHABET)] for at in range(len(one.ids)))
    }
    assert wrong == {}
    counted = {
        one.request_id: (one.record.usage.completion_tokens, len(one.ids))
        for one in seen
        if one.record is not None
    }
    assert {request_id: two for request_id, two in counted.items() if two[0] != two[1]} == {}


async def at_rest(stack: Deployment) -> None:
    """Nothing waits, nothing has a place, no worker holds a block of a request."""

    async def left() -> dict[str, int]:
        views = [view for view in await stack.workers() if view.state != "lost"]
        counts = {
            "queued": await stack.queued(),
            "pending": sum(view.pending_attempts for view in views),
            "running": sum(view.running_attempts for view in views),
            "blocks": sum(load.held_kv_blocks for load in (await stack.loads()).values()),
        }
        return {name: count for name, count in counts.items() if count}

    await until(left, lambda counts: not counts, "rest")
