"""Predicted lengths of answers that come with the workload."""

from weir_scheduler.dispatch.output_predictor import OutputPredictor


class Predictions(OutputPredictor):
    """The scheduler's predictor, but for requests that bring a prediction of their own.

    Attributes:
        next: prediction of the request that is enqueued next, tokens; None for none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.next: int | None = None

    def predict(self, tenant_id: str, model: str, max_new_tokens: int, default: int) -> int:
        """See `OutputPredictor`."""
        if self.next is not None:
            return min(max_new_tokens, self.next)
        return super().predict(tenant_id, model, max_new_tokens, default)
