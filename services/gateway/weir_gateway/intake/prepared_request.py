"""A request that has passed every check: exact tokens, resolved parameters."""

from dataclasses import dataclass

from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.subject_pb2 import DeliveryMode, LatencySla, RequestClass, Subject
from weir_core.directory import Parameters
from weir_gateway.caller.caller import Caller
from weir_gateway.text.model_text import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """What the life of a request starts from.

    Attributes:
        subject: who asks for what, with the model as resolved.
        prompt: exact tokens.
        max_new_tokens: as asked for, or the default that fits.
        max_context_tokens: of the model, prompt and output.
        sampling: with every default filled in, but for the seed.
        priority: clamped to the tenant's maximum.
        operation: `chat` or `text_completion`.
        fingerprint: of the tokenizer, 32 bytes.
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
    conversation_id: str = ""

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt, tokens."""
        return len(self.prompt.token_ids)

    @property
    def streams(self) -> bool:
        """Whether the client reads the answer as it is made."""
        return self.mode == DeliveryMode.DELIVERY_MODE_STREAM
