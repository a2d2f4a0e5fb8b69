"""The inputs of one attempt that asks for embeddings: the engine has each as a request."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.errors import InvalidField, Reason, WeirError
from weir_worker.choices import Choices
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import Usage

MAX_INPUTS = 64


class EmbedInputs(Choices):
    """The inputs of an attempt, from their starts to their ends; nothing is sampled of any.

    Args:
        submit: of all of them: its prompt is theirs one after the other.
        lengths: of each, together the prompt's.
    """

    def __init__(self, submit: Submit, lengths: Sequence[int]) -> None:
        super().__init__(submit, len(lengths))
        self._ends_at = list(accumulate(lengths))

    @property
    def first(self) -> Submit:
        """The start of the first."""
        return self._submit_of(0)

    @property
    def places(self) -> int:
        """They are computed as the parts of one long prompt are: as there is room in steps."""
        return 1

    def _submit_of(self, index: int) -> Submit:
        start = self._ends_at[index - 1] if index else 0
        return msgspec.structs.replace(
            self._submit,
            request_id=self.keys[index][0],
            prompt_token_ids=self._submit.prompt_token_ids[start : self._ends_at[index]],
            tenant_prefix_tokens=0,
            embed=True,
        )

    def _usage(self) -> Usage:
        usages = [end.usage for end in self.ends]
        return Usage(
            prompt_tokens=sum(usage.prompt_tokens for usage in usages),
            recomputed_tokens=sum(usage.recomputed_tokens for usage in usages),
        )


def check_embeds(spec: GenerationSpec, *, offered: bool) -> None:
    """Checks the inputs of a start, if it asks for embeddings.

    Raises:
        WeirError: EMBEDDINGS_NOT_OFFERED, or INVALID_FIELD.
    """
    lengths = spec.embed_lengths
    if not lengths:
        return
    if not offered:
        raise WeirError(
            Reason.EMBEDDINGS_NOT_OFFERED, "this worker makes no embeddings", field="model"
        )
    if len(lengths) > MAX_INPUTS:
        raise InvalidField("embed_lengths", f"{len(lengths)} inputs", f"1 to {MAX_INPUTS}")
    if min(lengths) < 1 or sum(lengths) != len(spec.prompt_token_ids):
        bound = f"lengths of at least 1 that make {len(spec.prompt_token_ids)} together"
        raise InvalidField("embed_lengths", sum(lengths), bound)
    if spec.sampling.n > 1 or spec.private_scope or spec.HasField("grammar"):
        raise InvalidField("embed_lengths", "set", "left out where something is generated")


def choices_of(submit: Submit, spec: GenerationSpec) -> Choices | None:
    """What of an attempt the engine has as requests of their own; None if it is one request."""
    if spec.embed_lengths:
        return EmbedInputs(submit, spec.embed_lengths)
    return Choices(submit, spec.sampling.n) if spec.sampling.n > 1 else None
