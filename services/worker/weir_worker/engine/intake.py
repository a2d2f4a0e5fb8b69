"""Turns a submission into a sequence, or says why not."""

from dataclasses import dataclass

from weir_core.clock import Clock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.prefix_hash import PrefixNamespace, session_scope
from weir_worker.engine.commands import Submit
from weir_worker.engine.sequence import Sequence
from weir_worker.kv import KvManager, PrefixScopes
from weir_worker.sampling.constraint import Constraint
from weir_worker.text import DetokenizerFactory, OutputText

MOST_STOPS = 16
LONGEST_STOP = 256
MOST_STOP_IDS = 64


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the engine has to know of its model.

    Attributes:
        name: enters the namespaces of the prefix cache.
        vocab_size: ids are below it.
        max_context: most tokens of a sequence, prompt and output.
        eos_token_ids: tokens of which each ends a sequence.
        tokenizer_fingerprint: SHA-256 of tokenizer.json.
    """

    name: str
    vocab_size: int
    max_context: int
    eos_token_ids: tuple[int, ...]
    tokenizer_fingerprint: bytes = b""


class Intake:
    """Checks submissions against the model and the cache."""

    def __init__(
        self, model: ServedModel, kv: KvManager, detokenizers: DetokenizerFactory, clock: Clock
    ) -> None:
        self._model = model
        self._kv = kv
        self._detokenizers = detokenizers
        self._clock = clock
        self._serial = 0

    def accept(self, submit: Submit, constraint: Constraint | None = None) -> Sequence:
        """Make the sequence of a submission; `constraint` is its grammar's.

        Raises:
            InvalidField: a field is out of bounds.
            WeirError: CONTEXT_LENGTH_EXCEEDED or REQUEST_TOO_LARGE, with the numbers.
        """
        self._check_fields(submit)
        max_tokens = self._max_tokens(submit)
        self._serial += 1
        now_us = self._clock.now_us()
        token_ids = list(submit.prompt_token_ids)
        text = OutputText(self._detokenizers.open(token_ids), submit.stop)
        scopes = self._scopes(submit)
        eos = () if submit.ignore_eos else self._model.eos_token_ids
        return Sequence(
            submit,
            age=(submit.arrival_us or now_us, self._serial),
            token_ids=token_ids,
            max_tokens=max_tokens,
            stop_ids=frozenset((*eos, *submit.stop_token_ids)),
            table=self._kv.open_table(submit.tenant, token_ids, scopes, submit.kv),
            text=text,
            received_us=now_us,
            constraint=constraint,
        )

    def _check_fields(self, submit: Submit) -> None:
        prompt, vocab = submit.prompt_token_ids, self._model.vocab_size
        if not submit.tenant:
            raise InvalidField("tenant", submit.tenant, "not empty")
        if not prompt:
            raise InvalidField("prompt_token_ids", prompt, "at least 1 token")
        if submit.max_new_tokens < 1:
            raise InvalidField("max_new_tokens", submit.max_new_tokens, "at least 1")
        if not 0 <= submit.tenant_prefix_tokens <= len(prompt):
            bound = f"from 0 to the prompt's length ({len(prompt)})"
            raise InvalidField("tenant_prefix_tokens", submit.tenant_prefix_tokens, bound)
        for field, ids in (("prompt_token_ids", prompt), ("stop_token_ids", submit.stop_token_ids)):
            if ids and not (min(ids) >= 0 and max(ids) < vocab):
                worst = min(ids) if min(ids) < 0 else max(ids)
                raise InvalidField(field, worst, f"token ids from 0 to {vocab - 1}")
        _check_stops(submit)

    def _max_tokens(self, submit: Submit) -> int:
        """Return the length at which the sequence ends."""
        length, context = len(submit.prompt_token_ids), self._model.max_context
        if length >= context:
            raise WeirError(
                Reason.CONTEXT_LENGTH_EXCEEDED,
                f"the prompt has {length} tokens; at most {context - 1} fit, since the model's "
                f"context is {context} tokens and an answer needs at least 1: shorten the prompt",
                field="prompt_token_ids",
                metadata={"prompt_tokens": str(length), "max_context_tokens": str(context)},
            )
        max_tokens = min(length + submit.max_new_tokens, context)
        # The last token is sampled and never computed.
        places = max_tokens - 1
        self._check_quota(submit, places)
        if self._kv.blocks_for(places) > self._kv.total_blocks:
            room = self._kv.total_blocks * self._kv.block_size
            raise WeirError(
                Reason.REQUEST_TOO_LARGE,
                f"prompt and max_new_tokens need KV cache for {places} tokens; this worker has "
                f"room for {room}: lower max_new_tokens, shorten the prompt, or raise "
                "kv_memory_bytes (or num_blocks) of the worker",
                field="max_new_tokens",
                metadata={"needed_tokens": str(places), "kv_capacity_tokens": str(room)},
            )
        return max_tokens

    def _check_quota(self, submit: Submit, places: int) -> None:
        quota = submit.kv.max_tokens
        if quota and self._kv.blocks_for(places) > self._kv.blocks_for(quota):
            raise WeirError(
                Reason.REQUEST_TOO_LARGE,
                f"prompt and max_new_tokens need KV cache for {places} tokens; your quota is "
                f"{quota} at once: lower max_new_tokens, shorten the prompt, or have kv.max_tokens "
                "of the tenant's policy raised",
                field="max_new_tokens",
                metadata={"needed_tokens": str(places), "kv_quota_tokens": str(quota)},
            )

    def _scopes(self, submit: Submit) -> PrefixScopes:
        # The tags keep a session id from ever meeting a request id.
        request = submit.shares_with or submit.request_id
        session = submit.private_scope
        told = submit.sampling.prompt_logprobs
        scope = session_scope(session) if session else f"request:{request}"
        name, fingerprint = self._model.name, self._model.tokenizer_fingerprint
        private = PrefixNamespace(submit.tenant, name, fingerprint, scope)
        return PrefixScopes(
            tenant=PrefixNamespace(submit.tenant, name, fingerprint),
            # Whose every token is told reads nothing that another request has left.
            private=None if submit.kv.share_private and told is None else private,
            tenant_tokens=submit.tenant_prefix_tokens,
            session=session,
        )


def _check_stops(submit: Submit) -> None:
    if len(submit.stop) > MOST_STOPS:
        raise InvalidField("stop", f"{len(submit.stop)} strings", f"at most {MOST_STOPS}")
    for stop in submit.stop:
        if not 1 <= len(stop) <= LONGEST_STOP:
            # Its length, not its text: no error holds what a user wrote.
            shown = f"a string of {len(stop)} characters"
            raise InvalidField("stop", shown, f"strings of 1 to {LONGEST_STOP} characters")
    if len(submit.stop_token_ids) > MOST_STOP_IDS:
        count = f"{len(submit.stop_token_ids)} ids"
        raise InvalidField("stop_token_ids", count, f"at most {MOST_STOP_IDS}")
