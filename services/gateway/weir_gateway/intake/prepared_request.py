"""A request that has passed every check: exact tokens, resolved parameters."""

from dataclasses import dataclass

from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import (
    DELIVERY_MODE_STREAM,
    DeliveryMode,
    LatencySla,
    RequestClass,
    Subject,
)
from weir_core.directory import Parameters
from weir_core.token_bytes import TokenBytes
from weir_gateway.caller.caller import Caller
from weir_gateway.intake.output_format import OutputFormat
from weir_gateway.intake.session_turn import SessionTurn
from weir_gateway.text.model_text import Prompt
from weir_gateway.tools.call_format import CallFormat
from weir_gateway.tools.tool_use import ToolUse


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """What the life of a request starts from.

    Attributes:
        subject: who asks for what, with the model as resolved.
        prompt: exact tokens.
        max_new_tokens: of each answer, as asked for, or the default that fits.
        max_context_tokens: of the model, prompt and output.
        sampling: with every default filled in, but for the seed.
        priority: clamped to the tenant's maximum.
        operation: `chat`, `text_completion` or `embeddings`.
        embed_lengths: see `GenerationRequest`.
        fingerprint: of the tokenizer, 32 bytes.
        token_bytes: what its tokens stand for.
        choices: answers to make.
        output_format: what each must match; None for anything.
        tool_use: which tools they may call; None where calls stay text.
        call_format: how calls are written; set with `tool_use`.
        echo: text that each begins with.
        session: which session it goes on with; None for none.
        avoided_workers: that are not to run it.
        degradations: what was changed instead of refusing it, each as `name=value`.
        fallback_versions: may serve it while no live worker serves the subject's, in order.
    """

    caller: Caller
    subject: Subject
    prompt: Prompt
    max_new_tokens: int
    max_context_tokens: int
    sampling: SamplingParams
    parameters: Parameters
    mode: "DeliveryMode.ValueType"
    request_class: "RequestClass.ValueType"
    latency_sla: "LatencySla.ValueType"
    priority: int
    operation: str
    fingerprint: bytes
    token_bytes: TokenBytes
    choices: int = 1
    output_format: OutputFormat | None = None
    tool_use: ToolUse | None = None
    call_format: CallFormat | None = None
    echo: str = ""
    conversation_id: str = ""
    embed_lengths: tuple[int, ...] = ()
    session: SessionTurn | None = None
    avoided_workers: frozenset[str] = frozenset()
    degradations: tuple[str, ...] = ()
    fallback_versions: tuple[str, ...] = ()

    @property
    def output_tokens(self) -> int:
        """Most tokens of all answers together."""
        return self.max_new_tokens * self.choices

    def field_of(self, workers_name: str) -> str | None:
        """What the client calls a field that a worker refused; None if it did not send it."""
        if workers_name == "grammar" and self.output_format is not None:
            return self.output_format.field
        return workers_name or None

    @property
    def tells_logprobs(self) -> bool:
        """Whether the answer, or its prompt, comes with log-probabilities."""
        sampling = self.sampling
        return sampling.HasField("logprobs") or sampling.HasField("prompt_logprobs")

    @property
    def session_id(self) -> str:
        """Id of its session; empty for none."""
        return "" if self.session is None else self.session.session_id

    @property
    def kept_session_id(self) -> str:
        """Id of the session whose KV it reads and leaves; empty for none."""
        return self.session_id if self.session is not None and self.session.keeps else ""

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt, tokens."""
        return len(self.prompt.token_ids)

    @property
    def streams(self) -> bool:
        """Whether the client reads the answer as it is made."""
        return self.mode == DELIVERY_MODE_STREAM
