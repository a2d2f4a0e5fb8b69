"""How long an answer will be, learned from those that have ended."""

from weir_scheduler.dispatch.recent_lengths import RecentLengths
from weir_scheduler.dispatch.tenant_medians import TenantMedians

_KEPT = 10_000
_FEWEST = 4
_FEWEST_TENANTS = 5
_MEDIAN = 0.5


class OutputPredictor:
    """Quantiles of completion tokens by tenant and model, of the last 64 answers of each.

    A tenant's own answers count alone once there are four. Before that stands a number for the
    model: the median over at least five tenants of each one's median, rounded up to a
    power of two, so that it tells nothing of any one of them. Without that, the bound of the
    request.

    Bounded: the least recently updated pairs are forgotten, and old answers as new ones end.
    """

    def __init__(self) -> None:
        self._lengths: dict[tuple[str, str], RecentLengths] = {}
        self._medians: dict[str, TenantMedians] = {}
        """By model."""

    def predict(self, tenant_id: str, model: str, max_new_tokens: int, default: int) -> int:
        """Median completion tokens to expect, at most `max_new_tokens`.

        `default`: where nothing is known.
        """
        expected = self.quantile(tenant_id, model, _MEDIAN)
        if expected is None:
            expected = self._of_model(model)
        return min(max_new_tokens, default if expected is None else expected)

    def quantile(self, tenant_id: str, model: str, share: float) -> int | None:
        """Tokens that a share (0 to 1) of the tenant's answers did not exceed; None: too few."""
        lengths = self._lengths.get((tenant_id, model))
        if lengths is None or len(lengths) < _FEWEST:
            return None
        return lengths.quantile(share)

    def observe(self, tenant_id: str, model: str, completion_tokens: int) -> None:
        """Takes in the length of an answer that came to its end."""
        key = tenant_id, model
        lengths = self._lengths.pop(key, None) or RecentLengths()
        lengths.add(completion_tokens)
        # Last in the order: the most recently updated.
        self._lengths[key] = lengths
        if len(lengths) >= _FEWEST:
            of_model = self._medians.setdefault(model, TenantMedians())
            of_model.put(tenant_id, lengths.quantile(_MEDIAN))
        if len(self._lengths) > _KEPT:
            self._forget(next(iter(self._lengths)))

    def _forget(self, key: tuple[str, str]) -> None:
        tenant_id, model = key
        del self._lengths[key]
        of_model = self._medians.get(model)
        if of_model is not None:
            of_model.discard(tenant_id)
            if not len(of_model):
                del self._medians[model]

    def _of_model(self, model: str) -> int | None:
        medians = self._medians.get(model)
        if medians is None or len(medians) < _FEWEST_TENANTS:
            return None
        middle = medians.middle()
        return 1 << (middle - 1).bit_length() if middle > 1 else 1
