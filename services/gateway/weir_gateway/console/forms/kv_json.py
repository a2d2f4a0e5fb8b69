"""The KV blocks of a worker as the page gets them."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from weir.worker.v1.worker_service_pb2 import KvBlockState, KvMap
from weir_gateway.console.forms.moments import moment, word

_MOST_RUNS = 4_096
_STATES = ("free", "cached", "held", "pinned")

_Run = tuple[int, str, str]


def kv_json(worker_id: str, maps: Sequence[KvMap]) -> dict[str, Any]:
    """A map that came in parts."""
    first = maps[0]
    runs = [run for part in maps for run in _runs(part)]
    states = dict.fromkeys(_STATES, 0)
    owners: dict[str, dict[str, int]] = {}
    for length, state, tenant in runs:
        states[state] = states.get(state, 0) + length
        if state != "free":
            own = owners.setdefault(tenant, dict.fromkeys(_STATES[1:], 0))
            own[state] = own.get(state, 0) + length
    whole = not maps[-1].next_block
    lost = first.total_blocks - sum(states.values()) if whole else 0
    return {
        "worker": worker_id,
        "time": moment(first, "time"),
        "known": first.known,
        "why": first.why or None,
        "block_tokens": first.block_size,
        "total_blocks": first.total_blocks,
        # In no state: there are none, unless blocks leak.
        "states": states | {"stranded": max(0, lost) if first.known else 0},
        "owners": _owners(owners),
        "runs": list(islice(_placed(runs), _MOST_RUNS)),
        "bounded": not whole or len(runs) > _MOST_RUNS,
    }


def _runs(part: KvMap) -> Iterator[_Run]:
    for length, state, owner in zip(part.lengths, part.states, part.owners, strict=True):
        name = (word(KvBlockState, state, "KV_BLOCK_STATE_") or "unknown").lower()
        yield length, name, part.tenants[owner - 1] if owner else ""


def _placed(runs: Sequence[_Run]) -> Iterator[dict[str, Any]]:
    first = 0
    for length, state, tenant in runs:
        yield {"first": first, "blocks": length, "state": state, "tenant": tenant}
        first += length


def _owners(owners: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    told = [
        {"tenant": tenant, **states, "total": sum(states.values())}
        for tenant, states in owners.items()
    ]
    return sorted(told, key=lambda one: (-int(one["total"]), str(one["tenant"])))
