"""What the server process tells the engine. One frame holds the commands of one turn."""

import msgspec

from weir_core.errors import Reason
from weir_worker.kv import KvPolicy
from weir_worker.sampling import Grammar, SamplingParams


class Submit(msgspec.Struct, tag="submit", frozen=True, kw_only=True):
    """Start one attempt.

    Attributes:
        prompt_token_ids: 1 to max_context - 1 ids of the vocabulary.
        max_new_tokens: at least 1; cut where the context ends.
        tenant_prefix_tokens: leading tokens that any request of the tenant may share.
        shares_with: request whose private blocks it may find, being another answer to it;
            empty: its own alone.
        grammar: what the output must match; None for anything.
        private_scope: session id, or empty for the request alone: who may find the rest.
        stop: at most 16 strings of 1 to 256 characters.
        stop_token_ids: at most 64 ids.
        ignore_eos: go on after an end-of-sequence token.
        deadline_us: `Clock.monotonic_us` of this machine; 0 for none.
        priority: higher is more urgent; decides which request of a tenant is pre-empted.
        arrival_us: first arrival at a gateway, Unix microseconds; 0: now. Decides who is oldest.
        kv: the tenant's part of the KV cache.
        embed: its embedding is asked for, and nothing is sampled.
    """

    request_id: str
    attempt: int
    tenant: str
    prompt_token_ids: list[int]
    max_new_tokens: int
    sampling: SamplingParams = SamplingParams()
    tenant_prefix_tokens: int = 0
    private_scope: str = ""
    shares_with: str = ""
    grammar: Grammar | None = None
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    deadline_us: int = 0
    priority: int = 0
    arrival_us: int = 0
    kv: KvPolicy = KvPolicy()
    embed: bool = False


class Abort(msgspec.Struct, tag="abort", frozen=True):
    """End one attempt at the step boundary; nothing happens when it has ended."""

    request_id: str
    attempt: int
    reason: Reason = Reason.CANCELLED
    message: str = "aborted"


class ReleaseSession(msgspec.Struct, tag="release_session", frozen=True):
    """Give up what is kept of a session; nothing happens when nothing is."""

    tenant: str
    session: str


class SetLimits(msgspec.Struct, tag="limits", frozen=True):
    """Change the bounds of a step from the next one on; None keeps a bound."""

    max_step_tokens: int | None = None
    max_running: int | None = None


class Preempt(msgspec.Struct, tag="preempt", frozen=True):
    """Take the KV of a running request as if memory had run out; for tests and drills."""

    request_id: str


class ReadKv(msgspec.Struct, tag="read_kv", frozen=True):
    """Tell what each KV block holds, with one of the next frames."""


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """Abort everything and end the engine."""

    message: str = "the worker is stopping"


Command = Submit | Abort | ReleaseSession | SetLimits | Preempt | ReadKv | Stop
