"""The whole load, made before it begins: nothing of it depends on the answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

import numpy as np

from weir_cli.load.arrivals import Arrivals
from weir_cli.load.lengths import Lengths
from weir_cli.load.load_request import LoadRequest
from weir_sim.workload import Workload

_CHUNK = 256


@dataclass(frozen=True, slots=True)
class LoadSize:
    """How much of a load is sent: what is reached first.

    Attributes:
        requests: at most so many; 0: no bound.
        duration_s: none is sent later; infinity: no bound.
    """

    requests: int = 0
    duration_s: float = float("inf")

    def of(self, requests: Iterator[LoadRequest]) -> tuple[LoadRequest, ...]:
        """The part of a load that is sent."""
        early = takewhile(lambda one: one.at_s < self.duration_s, requests)
        return tuple(islice(early, self.requests) if self.requests else early)


def drawn_plan(
    arrivals: Arrivals,
    lengths: Sequence[tuple[Lengths, Lengths]],
    tenants: Sequence[str],
    size: LoadSize,
    seed: int,
) -> tuple[LoadRequest, ...]:
    """A load drawn from distributions.

    Args:
        arrivals: when.
        lengths: prompt and answer of each kind of request; kinds take turns at random.
        tenants: who ask, in turns.
        size: how much; one of its bounds must be set.
        seed: the same one gives the same load.
    """
    return size.of(_drawn(arrivals, lengths, tenants, seed))


def _drawn(
    arrivals: Arrivals,
    lengths: Sequence[tuple[Lengths, Lengths]],
    tenants: Sequence[str],
    seed: int,
) -> Iterator[LoadRequest]:
    rng = np.random.default_rng([seed, 11])
    moments = arrivals.moments(seed)
    index = 0
    while True:
        prompts = [prompt.draw(rng, _CHUNK) for prompt, _ in lengths]
        outputs = [output.draw(rng, _CHUNK) for _, output in lengths]
        for at, kind in enumerate(rng.integers(len(lengths), size=_CHUNK)):
            yield LoadRequest(
                index,
                next(moments),
                tenants[index % len(tenants)],
                int(prompts[kind][at]),
                int(outputs[kind][at]),
            )
            index += 1


def traced_plan(
    workload: Workload, tenants: Sequence[str], size: LoadSize
) -> tuple[LoadRequest, ...]:
    """A trace's requests at its own moments; its clients are given to `tenants` in turns."""
    names: dict[str, str] = {}

    def requests() -> Iterator[LoadRequest]:
        for index, request in enumerate(workload.requests):
            client = request.tenant_id
            tenant = names.setdefault(client, tenants[len(names) % len(tenants)])
            yield LoadRequest(
                index, request.arrival_s, tenant, request.prompt_tokens, request.output_tokens
            )

    return size.of(requests())
