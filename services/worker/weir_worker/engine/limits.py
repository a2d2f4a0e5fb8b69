"""Bounds of one engine step."""

from dataclasses import dataclass

from weir_core.errors import InvalidField

_CONTEXT_EACH = 8_192


@dataclass(frozen=True, slots=True)
class StepLimits:
    """What one step may do.

    Attributes:
        max_step_tokens: rows of one forward pass: decodes and prefill chunks together.
        max_running: sequences that hold KV at once.
        max_prefill_chunk: most tokens of one prompt in one step; 0 for no bound of its own.
        watermark_blocks: blocks left free when a sequence joins others, for their growth.
        max_step_context_tokens: tokens of context that the decodes of a step read; 0: 8,192 for
            each of `max_running`. One decode is always run.
        max_step_us: predicted time that prefill may stretch a step with decodes to; 0: 2.2 times
            that of the decodes alone when the last prompt joined them, and 50 ms in any case for
            prompts that one step could hold. Some prefill is always run.

    Raises:
        InvalidField: a bound is out of range; every running sequence must fit in a step.
    """

    max_step_tokens: int
    max_running: int
    max_prefill_chunk: int = 0
    watermark_blocks: int = 0
    max_step_context_tokens: int = 0
    max_step_us: int = 0

    def __post_init__(self) -> None:
        if self.max_running < 1:
            raise InvalidField("max_running", self.max_running, "at least 1")
        if self.max_step_tokens < self.max_running:
            raise InvalidField(
                "max_step_tokens",
                self.max_step_tokens,
                f"at least max_running ({self.max_running}), one token for each sequence",
            )
        if self.max_prefill_chunk < 0:
            raise InvalidField("max_prefill_chunk", self.max_prefill_chunk, "0 (off) or more")
        for field in ("watermark_blocks", "max_step_context_tokens", "max_step_us"):
            value = getattr(self, field)
            if value < 0:
                raise InvalidField(field, value, "0 or more")

    @property
    def step_context_tokens(self) -> int:
        """Bound on the context that the decodes of a step read, tokens."""
        return self.max_step_context_tokens or _CONTEXT_EACH * self.max_running
