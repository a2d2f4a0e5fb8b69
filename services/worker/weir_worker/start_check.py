"""Bounds of every field of a start; what passes becomes the engine's command."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.lifecycle_pb2 import Attempt
from weir.common.v1.sampling_pb2 import SamplingParams as SamplingProto
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.clock import Clock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.ids import check_id
from weir_worker.embed_inputs import check_embeds
from weir_worker.engine.commands import Submit
from weir_worker.kv import KvPolicy
from weir_worker.sampling import Grammar, SamplingParams
from weir_worker.sampling.grammar import GrammarKind

MAX_STOPS = 16
MAX_STOP_CHARS = 256
MAX_STOP_IDS = 64
MAX_PRIORITY = 100
MAX_SESSION_ID = 128
MAX_CHOICES = 8
MAX_TOLD_PROMPT = 8_192
MAX_GRAMMAR_CHARACTERS = 65_536
MAX_UNIX_S = 253_402_300_799
_OPTIONAL = (
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "prompt_logprobs",
)
_SUBJECT_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What this worker serves, as far as a request can miss it.

    Attributes:
        name: public name of the model.
        vocab_size: ids are 0 to vocab_size - 1.
        max_context: most tokens of prompt and output together.
        tokenizer_fingerprint: 32 bytes, or empty: not checked.
        embeddings: whether it makes them.
        only_tenant: the one tenant that is served; empty: any.
    """

    name: str
    vocab_size: int
    max_context: int
    tokenizer_fingerprint: bytes = b""
    only_tenant: str = ""
    embeddings: bool = False


class StartCheck:
    """Validates generation specs against the served model.

    Args:
        model: what is served.
        clock: for deadlines.
    """

    def __init__(self, model: ServedModel, clock: Clock) -> None:
        self._model = model
        self._clock = clock

    def submit_of(self, spec: GenerationSpec) -> Submit:
        """The engine's command for a spec.

        Raises:
            InvalidField: names the first field out of bounds, its value and the bound.
            WeirError: PERMISSION_DENIED, MODEL_NOT_FOUND, CONTEXT_LENGTH_EXCEEDED or
                DEADLINE_EXCEEDED.
        """
        check_attempt(spec.attempt)
        check_tenant_id(spec.tenant_id)
        self._check_tenant(spec.tenant_id)
        self._check_model(spec)
        prompt = self._prompt_of(spec)
        if spec.max_new_tokens < 1:
            raise InvalidField("max_new_tokens", spec.max_new_tokens, "at least 1")
        _check_range("priority", spec.priority, 0, MAX_PRIORITY)
        _check_range("sampling.min_tokens", spec.sampling.min_tokens, 0, spec.max_new_tokens)
        _check_range("sampling.n", spec.sampling.n, 0, MAX_CHOICES)
        check_embeds(spec, offered=self._model.embeddings)
        told = _tells_prompt(spec)
        if spec.private_scope:
            check_session_id("private_scope", spec.private_scope)
        return Submit(
            request_id=spec.attempt.request_id,
            attempt=spec.attempt.number,
            tenant=spec.tenant_id,
            prompt_token_ids=prompt,
            max_new_tokens=spec.max_new_tokens,
            sampling=self._sampling_of(spec.sampling),
            # A prompt whose every token is told is computed whole.
            tenant_prefix_tokens=0 if told else spec.tenant_prefix_tokens,
            private_scope=spec.private_scope,
            grammar=_grammar_of(spec),
            stop=_stops_of(spec.sampling),
            stop_token_ids=self._stop_ids_of(spec.sampling),
            ignore_eos=spec.sampling.ignore_eos,
            deadline_us=self._deadline_of(spec),
            priority=spec.priority,
            arrival_us=_time_of("arrival_time", spec.arrival_time),
            kv=_kv_of(spec),
        )

    def _check_tenant(self, tenant_id: str) -> None:
        if self._model.only_tenant not in ("", tenant_id):
            raise WeirError(
                Reason.PERMISSION_DENIED,
                "this worker is dedicated to another tenant",
                field="tenant_id",
            )

    def _check_model(self, spec: GenerationSpec) -> None:
        if spec.model != self._model.name:
            raise WeirError(
                Reason.MODEL_NOT_FOUND,
                f"model is {spec.model[:128]!r}; this worker serves {self._model.name!r}",
                field="model",
            )
        mine, theirs = self._model.tokenizer_fingerprint, spec.tokenizer_fingerprint
        if theirs and mine and theirs != mine:
            bound = f"{mine.hex()}, the fingerprint of this worker's tokenizer, or empty"
            raise InvalidField("tokenizer_fingerprint", theirs[:32].hex(), bound)

    def _prompt_of(self, spec: GenerationSpec) -> list[int]:
        length, limit = len(spec.prompt_token_ids), self._model.max_context - 1
        if length < 1:
            raise InvalidField("prompt_token_ids", [], f"1 to {limit} ids")
        if length > limit:
            raise WeirError(
                Reason.CONTEXT_LENGTH_EXCEEDED,
                f"the prompt has {length} tokens; at most {limit} leave room for one new token "
                f"in the context of {self._model.max_context}; shorten the prompt",
                field="prompt_token_ids",
            )
        prompt = list(spec.prompt_token_ids)
        self._check_ids("prompt_token_ids", prompt)
        _check_range("tenant_prefix_tokens", spec.tenant_prefix_tokens, 0, length)
        return prompt

    def _check_ids(self, field: str, ids: Sequence[int]) -> None:
        # Two passes in C over the whole prompt; the slow search runs only to name the culprit.
        last = self._model.vocab_size - 1
        if ids and (min(ids) < 0 or max(ids) > last):
            index, bad = next((i, t) for i, t in enumerate(ids) if not 0 <= t <= last)
            raise InvalidField(f"{field}[{index}]", bad, f"0 to {last}")

    def _sampling_of(self, sampling: SamplingProto) -> SamplingParams:
        # What is set, a zero included.
        given: dict[str, Any] = {
            field.name: value for field, value in sampling.ListFields() if field.name in _OPTIONAL
        }
        if given.get("top_k", 0) > self._model.vocab_size:
            bound = f"-1 or 0 (off), or 1 to {self._model.vocab_size}"
            raise InvalidField("sampling.top_k", given["top_k"], bound)
        bias = dict(sampling.logit_bias)
        self._check_ids("sampling.logit_bias", list(bias))
        try:
            return SamplingParams(**given, min_tokens=sampling.min_tokens, logit_bias=bias)
        except InvalidField as error:
            raise InvalidField(f"sampling.{error.field}", error.value, error.bound) from None

    def _stop_ids_of(self, sampling: SamplingProto) -> list[int]:
        ids = list(sampling.stop_token_ids)
        if len(ids) > MAX_STOP_IDS:
            raise InvalidField("sampling.stop_token_ids", len(ids), f"at most {MAX_STOP_IDS} ids")
        self._check_ids("sampling.stop_token_ids", ids)
        return ids

    def _deadline_of(self, spec: GenerationSpec) -> int:
        if not spec.HasField("deadline"):
            return 0
        left_us = _time_of("deadline", spec.deadline) - self._clock.now_us()
        if left_us <= 0:
            raise WeirError(
                Reason.DEADLINE_EXCEEDED,
                f"the deadline passed {-left_us / 1e6:.3f} s before the worker got the request",
                field="deadline",
            )
        return self._clock.monotonic_us() + left_us


def check_attempt(attempt: Attempt) -> tuple[str, int]:
    """The key of an attempt. Raises InvalidField when it names none."""
    check_id("attempt.request_id", attempt.request_id)
    _check_range("attempt.number", attempt.number, 1, 2**31 - 1)
    return attempt.request_id, attempt.number


def check_tenant_id(tenant_id: str) -> None:
    """Raises InvalidField when it can be no tenant's."""
    if not _SUBJECT_ID.fullmatch(tenant_id):
        bound = "1 to 128 characters of A-Z a-z 0-9 . _ : / -"
        raise InvalidField("tenant_id", tenant_id, bound)


def check_session_id(field: str, session_id: str) -> None:
    """Raises InvalidField when it can be no session's."""
    if not session_id:
        raise InvalidField(field, session_id, "not empty")
    if len(session_id) > MAX_SESSION_ID:
        raise InvalidField(field, session_id, f"at most {MAX_SESSION_ID} characters")


def _kv_of(spec: GenerationSpec) -> KvPolicy:
    if not spec.HasField("kv"):
        return KvPolicy()
    given = spec.kv
    return KvPolicy(
        max_tokens=given.max_tokens,
        weight=given.weight or 1,
        share_private=given.share_private,
        session_ttl_ms=given.session_ttl_ms,
    )


def _time_of(field: str, time: Timestamp) -> int:
    """Unix microseconds. A time past the year 9999 would not fit the engine's integers."""
    _check_range(f"{field}.seconds", time.seconds, 0, MAX_UNIX_S)
    _check_range(f"{field}.nanos", time.nanos, 0, 999_999_999)
    return time.seconds * 1_000_000 + time.nanos // 1_000


def _check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidField(field, value, f"{low} to {high}")


def _tells_prompt(spec: GenerationSpec) -> bool:
    """Whether log-probabilities of the prompt are asked for, and may be.

    A session goes on from one answer, and reads what it has computed before.
    """
    sampling = spec.sampling
    if sampling.n > 1 and spec.private_scope:
        raise InvalidField("sampling.n", sampling.n, "1 in a session")
    if not sampling.HasField("prompt_logprobs"):
        return False
    if spec.private_scope:
        raise InvalidField("sampling.prompt_logprobs", "set", "left out in a session")
    if len(spec.prompt_token_ids) > MAX_TOLD_PROMPT:
        bound = f"left out for prompts of more than {MAX_TOLD_PROMPT} tokens"
        raise InvalidField("sampling.prompt_logprobs", "set", bound)
    return True


def _grammar_of(spec: GenerationSpec) -> Grammar | None:
    kind = spec.grammar.WhichOneof("kind") if spec.HasField("grammar") else None
    if kind is None:
        return None
    text = getattr(spec.grammar, kind)
    if not 1 <= len(text) <= MAX_GRAMMAR_CHARACTERS:
        bound = f"1 to {MAX_GRAMMAR_CHARACTERS} characters"
        raise InvalidField("grammar", f"{len(text)} characters", bound)
    if spec.sampling.min_tokens:
        bound = "0 with a grammar, whose end is the output's"
        raise InvalidField("sampling.min_tokens", spec.sampling.min_tokens, bound)
    return Grammar(GrammarKind(kind), text)


def _stops_of(sampling: SamplingProto) -> list[str]:
    if len(sampling.stop) > MAX_STOPS:
        raise InvalidField("sampling.stop", len(sampling.stop), f"at most {MAX_STOPS} strings")
    for index, stop in enumerate(sampling.stop):
        if not 1 <= len(stop) <= MAX_STOP_CHARS:
            # The length, not the text: an error holds no prompt text.
            bound = f"1 to {MAX_STOP_CHARS} characters long"
            raise InvalidField(f"sampling.stop[{index}]", f"{len(stop)} characters", bound)
    return list(sampling.stop)
