"""One request, whatever door it came through; nothing in it has been checked but its types."""

from dataclasses import dataclass, field

from weir.common.v1.subject_pb2 import LatencySla, RequestClass
from weir_gateway.intake.output_format import OutputFormat
from weir_gateway.intake.sampling_request import SamplingRequest
from weir_gateway.text.chat import Chat
from weir_gateway.tools.tool_use import ToolUse


@dataclass(frozen=True, slots=True)
class FieldNames:
    """What the door calls its fields, for errors that its clients understand."""

    messages: str = "messages"
    prompt: str = "prompt"
    max_new_tokens: str = "max_new_tokens"
    sampling: str = ""

    def of_sampling(self, name: str) -> str:
        """Name of a sampling field, such as `sampling.top_p`."""
        return f"{self.sampling}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A request to generate.

    Exactly one of `chat`, `prompt` and `token_ids` is set.

    Attributes:
        model: name or alias.
        model_version: empty for one by weight.
        shared_prefix_characters: leading characters of `prompt` that the tenant shares.
        max_new_tokens: None for the default.
        requires_max_new_tokens: the door demands it.
        output_format: what the answer must match; None for anything.
        tool_use: which tools of the chat may be called; None where calls stay text.
        echo: the answer begins with the prompt.
        prefix: `name` or `name@version` of what stands before the input; empty for nothing.
        avoided_workers: that are not to run it.
        embed_lengths: `token_ids` is so many inputs one after the other, of these lengths, whose
            embeddings are asked for; empty where something is generated.
        priority: as asked for; clamped to the tenant's maximum later.
        names: how errors call the fields.
    """

    model: str
    model_version: str = ""
    chat: Chat | None = None
    prompt: str | None = None
    token_ids: tuple[int, ...] | None = None
    shared_prefix_characters: int = 0
    max_new_tokens: int | None = None
    requires_max_new_tokens: bool = False
    sampling: SamplingRequest = field(default_factory=SamplingRequest)
    output_format: OutputFormat | None = None
    tool_use: ToolUse | None = None
    echo: bool = False
    stream: bool = False
    conversation_id: str = ""
    session_id: str = ""
    prefix: str = ""
    avoided_workers: frozenset[str] = frozenset()
    embed_lengths: tuple[int, ...] = ()
    latency_sla: "LatencySla.ValueType" = LatencySla.LATENCY_SLA_NORMAL
    priority: int = 0
    request_class: "RequestClass.ValueType" = RequestClass.REQUEST_CLASS_INTERACTIVE
    names: FieldNames = field(default_factory=FieldNames)

    @property
    def operation(self) -> str:
        """`chat`, `text_completion` or `embeddings`, as the GenAI conventions call it."""
        if self.embed_lengths:
            return "embeddings"
        return "text_completion" if self.chat is None else "chat"

    @property
    def input_characters(self) -> int:
        """Rough size of the input."""
        if self.chat is not None:
            return self.chat.size
        return len(self.prompt or "")
