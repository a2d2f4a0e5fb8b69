"""How long answers have been, to reserve what is likely instead of what is possible."""

from array import array
from collections import OrderedDict

_SAMPLES = 256
_FEWEST = 20
_MOST_PAIRS = 20_000


class OutputHistory:
    """The 95th percentile of recent outputs by tenant and model.

    Nearest-rank quantile over the last 256 outputs of each pair. Learned by a tenant from its
    own requests alone, and never written down; the least recently used pairs are dropped.
    """

    def __init__(self) -> None:
        # Most tenants have a few outputs: an array takes what these need, a deque 64 places.
        self._outputs: OrderedDict[tuple[str, str], array[int]] = OrderedDict()

    def observe(self, tenant_id: str, model: str, completion_tokens: int) -> None:
        """Take note of one answer."""
        key = (tenant_id, model)
        outputs = self._outputs.get(key)
        if outputs is None:
            outputs = self._outputs[key] = array("q")
        elif len(outputs) == _SAMPLES:
            del outputs[0]
        outputs.append(completion_tokens)
        self._outputs.move_to_end(key)
        if len(self._outputs) > _MOST_PAIRS:
            self._outputs.popitem(last=False)

    def likely_output(self, tenant_id: str, model: str) -> int | None:
        """Tokens that 95 of 100 answers stay within; None with fewer than 20 answers seen."""
        outputs = self._outputs.get((tenant_id, model))
        if outputs is None or len(outputs) < _FEWEST:
            return None
        rank = -(-len(outputs) * 95 // 100)
        return sorted(outputs)[rank - 1]
