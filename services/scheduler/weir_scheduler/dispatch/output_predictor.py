"""How long an answer will be."""

_KEPT = 10_000
_NEWEST_WEIGHT = 16


class OutputPredictor:
    """Moving mean of completion tokens by tenant and model; learned from nobody else.

    Bounded: the least recently updated pairs are forgotten.
    """

    def __init__(self) -> None:
        self._means: dict[tuple[str, str], int] = {}

    def predict(self, tenant_id: str, model: str, max_new_tokens: int, default: int) -> int:
        """Expected completion tokens, at most `max_new_tokens`; `default` before any answer."""
        mean = self._means.get((tenant_id, model))
        return min(max_new_tokens, default if mean is None else mean // _NEWEST_WEIGHT)

    def observe(self, tenant_id: str, model: str, completion_tokens: int) -> None:
        """Takes in the length of a finished answer."""
        key = tenant_id, model
        scaled = completion_tokens * _NEWEST_WEIGHT
        mean = self._means.pop(key, scaled)
        # Exponential moving mean with weight 1/16, in sixteenths of a token.
        self._means[key] = mean + (scaled - mean) // _NEWEST_WEIGHT
        if len(self._means) > _KEPT:
            del self._means[next(iter(self._means))]
