"""How the service of a pool is divided while everything waits."""

from dataclasses import dataclass

from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.pool_scope import PromptLength


@dataclass(frozen=True, slots=True)
class Shares:
    """Weights, 1 or more each: nothing that waits is ever without service.

    Attributes:
        interactive, batch: of the two classes.
        short, long: of the prompts within a class.
    """

    interactive: int = 9
    batch: int = 1
    short: int = 4
    long: int = 1

    def of_class(self, request_class: RequestClass) -> int:
        """Weight of a class."""
        return self.batch if request_class is RequestClass.BATCH else self.interactive

    def of_length(self, length: PromptLength) -> int:
        """Weight of a length within its class."""
        return self.long if length is PromptLength.LONG else self.short
