"""One attempt that runs or waits in the engine."""

from dataclasses import dataclass
from typing import Protocol

from weir.common.v1.lifecycle_pb2 import TerminalRecord, TraceContext
from weir_worker.choices import Choices
from weir_worker.engine.events import Delta, Prefilled, Progress
from weir_worker.sampling import SamplingParams
from weir_worker.terminal_records import AttemptKey


class AttemptSink(Protocol):
    """Where the news of an attempt goes. Called from the event loop; must not block."""

    def on_delta(self, attempt: "RunningAttempt", delta: Delta, choice: int) -> None:
        """New tokens of one of its answers; the attempt's counts include them already."""

    def on_terminal(self, record: TerminalRecord) -> None:
        """The end, once, after all deltas."""


@dataclass(slots=True, eq=False)
class RunningAttempt:
    """What the server process knows of an attempt while it runs.

    Attributes:
        key: request id and attempt number.
        prompt_tokens: length of the prompt.
        max_new_tokens, sampling: as asked for.
        sink: where its news goes.
        trace: the request's trace context.
        received_us: when the worker got it, Unix microseconds.
        computed_prompt_tokens: prompt tokens computed or hit, as last heard.
        cached_prompt_tokens: of these, those hit.
        completion_tokens: tokens sampled so far.
        prefill: when and how its prompt was computed; None before.
        first_token_us: when the first token arrived from the engine; 0 before.
        kv_blocks: blocks it holds, as last heard.
        aborting: an abort has been sent to the engine.
        choices: its answers, if there are several.
    """

    key: AttemptKey
    tenant: str
    prompt_tokens: int
    max_new_tokens: int
    sampling: SamplingParams
    sink: AttemptSink
    trace: TraceContext
    received_us: int
    computed_prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0
    prefill: Prefilled | None = None
    first_token_us: int = 0
    kv_blocks: int = 0
    aborting: bool = False
    choices: Choices | None = None

    @property
    def places(self) -> int:
        """Answers that it computes at once."""
        return 1 if self.choices is None else self.choices.places

    def note_prefilled(self, prefilled: Prefilled) -> None:
        """Its whole prompt is in the cache."""
        self.prefill = prefilled
        self.computed_prompt_tokens = prefilled.prompt_tokens
        self.cached_prompt_tokens = prefilled.cached_prompt_tokens

    def note_progress(self, progress: Progress, choice: int = 0) -> None:
        """How far it, or one of its answers, was at the end of a step."""
        if self.choices is not None:
            self.kv_blocks = self.choices.note_blocks(choice, progress.kv_blocks)
        else:
            self.kv_blocks = progress.kv_blocks
        if choice:
            return
        self.computed_prompt_tokens = progress.prompt_tokens
        self.cached_prompt_tokens = progress.cached_prompt_tokens
