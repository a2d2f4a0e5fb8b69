"""What the engine tells the server process. One frame a step.

Times named `_us` are Unix microseconds, 0 when the moment never came.
"""

from enum import StrEnum

import msgspec

from weir_core.errors import Reason, WeirError
from weir_worker.engine.load import Load
from weir_worker.engine.timeline import Moment
from weir_worker.sampling import TokenLogprobs


class FinishReason(StrEnum):
    """Why a sequence ended; the names of `weir.common.v1.FinishReason`."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    REJECTED = "rejected"


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """A `WeirError` on its way between processes."""

    reason: Reason
    message: str
    field: str | None = None
    metadata: dict[str, str] = {}

    @classmethod
    def of(cls, error: WeirError) -> "Failure":
        """Copy an exception."""
        return cls(error.reason, error.message, error.field, error.metadata)

    def to_error(self) -> WeirError:
        """Return the exception again, to be raised by the receiver."""
        return WeirError(self.reason, self.message, field=self.field, metadata=self.metadata)


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """Exact tokens of one attempt.

    Attributes:
        prompt_tokens: those whose KV was computed or hit; less than the prompt only when the
            attempt ended during prefill.
        cached_prompt_tokens: of these, those hit.
        completion_tokens: sampled, the token that ended it included.
        recomputed_tokens: computed again after a pre-emption; charged to nobody.
    """

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0
    recomputed_tokens: int = 0

    @property
    def computed_prompt_tokens(self) -> int:
        """Prompt tokens that ran through the model, each counted once."""
        return self.prompt_tokens - self.cached_prompt_tokens


class Delta(msgspec.Struct, array_like=True, gc=False):
    """Tokens sampled in this step and the text that became certain with them.

    Where steps overlap, the text is set while the next step runs, before the frame is sent.

    `logprobs` holds one for each token, or nothing where they are not asked for. So does
    `prompt_logprobs`, in the first delta, for each token of the prompt but the first.
    An attempt that asks for its embedding has one delta, with that alone.
    """

    request_id: str
    attempt: int
    token_ids: list[int]
    text: str
    logprobs: list[TokenLogprobs] = []
    prompt_logprobs: list[TokenLogprobs] = []
    embedding: list[float] = []


class Prefilled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The whole prompt is in the cache for the first time."""

    request_id: str
    attempt: int
    prompt_tokens: int
    cached_prompt_tokens: int
    prefill_start_us: int
    prefill_end_us: int


class Terminal(msgspec.Struct, frozen=True, array_like=True):
    """The end of an attempt: exactly one for every `Submit`.

    Attributes:
        failure: set unless it ended by `stop` or `length`.
        received_us: when the engine took it.
        prefill_start_us: start of the step that computed its first token.
        prefill_end_us: end of the step that computed the last prompt token.
        first_token_us: when its first token was sampled.
        preemptions: times its KV was taken.
        timeline: what the steps did for it.
        estimated: the usage is not a count of who computed it, but of what came from there.
    """

    request_id: str
    attempt: int
    tenant: str
    finish_reason: FinishReason
    usage: Usage
    failure: Failure | None = None
    received_us: int = 0
    prefill_start_us: int = 0
    prefill_end_us: int = 0
    first_token_us: int = 0
    end_us: int = 0
    preemptions: int = 0
    estimated: bool = False
    timeline: list[Moment] = []


class Progress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far one attempt is that runs or waits."""

    request_id: str
    attempt: int
    prompt_tokens: int
    cached_prompt_tokens: int
    completion_tokens: int
    kv_blocks: int


class TenantKv(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """KV blocks of one tenant: of its sequences, of its sessions alone, and cached ones."""

    tenant: str
    running: int
    pinned: int
    cached: int


class KvFrame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What each KV block holds, in runs of blocks that are alike.

    Attributes:
        tenants: owners; runs name them from 1, and 0 is nobody.
        lengths, owners, references: of each run, unsigned 32 bits, native order.
        states: of each run, a byte: `BlockState`.
    """

    tenants: list[str]
    lengths: bytes
    states: bytes
    owners: bytes
    references: bytes


class StepOutput(msgspec.Struct, tag="step", array_like=True):
    """The news of one step, or of none: then it is a heartbeat.

    Attributes:
        deltas: at most one for an attempt.
        progress: every attempt, now and then; else empty.
        prefixes_added, prefixes_removed: names of prefixes that became findable, and that no
            longer are, since the last frame.
        tenants: those with most KV blocks, with progress; else None.
        kv: what each KV block holds, if it was asked for.
    """

    deltas: list[Delta]
    prefilled: list[Prefilled]
    terminals: list[Terminal]
    progress: list[Progress]
    load: Load
    prefixes_added: list[bytes] = []
    prefixes_removed: list[bytes] = []
    tenants: list[TenantKv] | None = None
    kv: KvFrame | None = None


class Ready(msgspec.Struct, tag="ready", frozen=True, array_like=True, kw_only=True):
    """The engine has started; what it serves.

    Attributes:
        model: name of the model.
        max_context: most tokens of one request, prompt and output.
        kv_bytes_per_token: memory of one token's KV.
        tokenizer_fingerprint: SHA-256 of tokenizer.json.
        embeddings: whether it makes them.
    """

    model: str
    vocab_size: int
    max_context: int
    block_size: int
    num_blocks: int
    kv_bytes_per_token: int
    max_step_tokens: int
    max_running: int
    eos_token_ids: list[int]
    tokenizer_fingerprint: bytes
    attention_backend: str
    dtype: str
    device: str
    batch_invariant: bool
    kernels: str
    pid: int
    embeddings: bool = False


class StartFailed(msgspec.Struct, tag="failed", frozen=True, array_like=True):
    """The engine could not start, and its process ends."""

    failure: Failure


EngineMessage = StepOutput | Ready | StartFailed
