"""What one request asks of a worker, on average over a window."""

from dataclasses import dataclass

from weir_cli.doctor.window import Window


@dataclass(frozen=True, slots=True)
class TokensForEach:
    """Averages of ended requests.

    Attributes:
        prompt, output: tokens.
        hits: share of the prompt tokens that was read from the cache.
    """

    prompt: float
    output: float
    hits: float

    @property
    def computed(self) -> float:
        """Prompt tokens that the model computed."""
        return self.prompt * (1 - self.hits)

    @classmethod
    def of(cls, window: Window) -> "TokensForEach":
        """Those of a window."""
        lengths = window.values("output_length")
        count = max(1, lengths.count)
        return cls(window.total("prompt_tokens") / count, lengths.sum / count, window.hit_share)


def from_prompts(before: TokensForEach, after: TokensForEach) -> float:
    """Computed prompt tokens of a request that longer prompts add."""
    return (after.prompt - before.prompt) * (1 - before.hits)


def from_hits(before: TokensForEach, after: TokensForEach) -> float:
    """Those that lost hits add."""
    return after.prompt * (before.hits - after.hits)
