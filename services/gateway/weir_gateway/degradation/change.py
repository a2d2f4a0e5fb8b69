"""A request with something changed, and how that is told."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weir_core.directory import DirectoryIndex
from weir_gateway.caller.caller import Caller
from weir_gateway.intake.generation_request import GenerationRequest


@dataclass(frozen=True, slots=True)
class Changed:
    """A request to try in place of another.

    Attributes:
        request: as it would be run.
        told: each change as `name=value`, in the words of policies.
    """

    request: GenerationRequest
    told: tuple[str, ...] = ()

    def with_model(self, name: str) -> "Changed":
        """On another model."""
        return Changed(replace(self.request, model=name), (*self.told, f"smaller_model={name}"))

    def with_max_new_tokens(self, tokens: int) -> "Changed":
        """With a lower bound of its answer."""
        request = replace(self.request, max_new_tokens=tokens)
        return Changed(request, (*self.told, f"lower_max_new_tokens={tokens}"))

    def with_one_answer(self) -> "Changed":
        """With one answer, whose log-probabilities are told if they were asked for."""
        sampling = replace(self.request.sampling, n=1)
        request = replace(self.request, sampling=sampling)
        return Changed(request, (*self.told, "cheaper_sampling=n:1"))

    def without_turns(self, dropped: int, end: int) -> "Changed":
        """Without the messages from the leading system ones up to index `end`."""
        chat = self.request.chat
        assert chat is not None
        kept = chat.messages[: chat.head_length] + chat.messages[end:]
        request = replace(self.request, chat=replace(chat, messages=kept))
        return Changed(request, (*self.told, f"truncate=head:{dropped}"))


def on_fallbacks(index: DirectoryIndex, caller: Caller, asked: Changed) -> Iterator[Changed]:
    """The request on each model of its model's chain that the caller may use, in order.

    None for a request that names a version, or is of tokens: both belong to one model.
    """
    request = asked.request
    model = index.model(request.model)
    if request.model_version or request.token_ids is not None:
        return
    seen = set()
    while model is not None and model.fallback_model and model.name not in seen:
        seen.add(model.name)
        model = index.model(model.fallback_model)
        if model is not None and caller.may_use(model.name):
            yield asked.with_model(model.name)
