"""Service of tenants: what the scheduler charges and what workers compute."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.bounds import Bounds
from weir_sim.outcome import ServiceLog


class ServiceMeter:
    """Cumulates service by tenant and samples it.

    Args:
        bounds: for the weights w_p and w_q.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._prompt_weight = bounds.prompt_weight
        self._output_weight = bounds.output_weight
        self._prompts: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._samples: list[tuple[float, dict[str, int], dict[str, int], dict[str, int]]] = []

    def prompt(self, tenant_id: str, tokens: int) -> None:
        """Prompt tokens were computed for the first time."""
        self._prompts[tenant_id] = self._prompts.get(tenant_id, 0) + tokens

    def output(self, tenant_id: str, tokens: int) -> None:
        """Tokens were sampled."""
        self._outputs[tenant_id] = self._outputs.get(tenant_id, 0) + tokens

    def ended(self, attempt: Attempt) -> None:
        """An attempt has ended; its charge is final."""
        tenant_id = attempt.tenant_id
        self._ended[tenant_id] = self._ended.get(tenant_id, 0) + attempt.charged

    def sample(self, at_s: float, live: Mapping[str, int], waiting: Mapping[str, int]) -> None:
        """Notes where everybody stands.

        Args:
            at_s: moment.
            live: service charged for attempts that have not ended, by tenant.
            waiting: requests in the queue, by tenant.
        """
        charged = dict(self._ended)
        for tenant_id, service in live.items():
            charged[tenant_id] = charged.get(tenant_id, 0) + service
        computed = {
            tenant_id: self._prompts.get(tenant_id, 0) * self._prompt_weight
            + self._outputs.get(tenant_id, 0) * self._output_weight
            for tenant_id in self._prompts.keys() | self._outputs.keys()
        }
        self._samples.append((at_s, charged, computed, dict(waiting)))

    def log(self, tenants: Iterable[str]) -> ServiceLog:
        """The samples as arrays."""
        names = tuple(sorted(tenants))

        def table(values_of: Callable[[int], dict[str, int]]) -> np.ndarray:
            rows = [
                [values.get(name, 0) for name in names]
                for values in map(values_of, range(len(self._samples)))
            ]
            return np.array(rows, dtype=np.int64).reshape(len(rows), len(names))

        return ServiceLog(
            tenants=names,
            times_s=np.array([sample[0] for sample in self._samples]),
            charged=table(lambda row: self._samples[row][1]),
            computed=table(lambda row: self._samples[row][2]),
            waiting=table(lambda row: self._samples[row][3]),
        )
