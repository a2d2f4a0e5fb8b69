"""Attempts over a real engine, driven step by step: whatever comes, every start ends once."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.worker.server.support import spec
from weir.common.v1.lifecycle_pb2 import Attempt, Outcome, SignedGrant, TerminalRecord
from weir.common.v1.sampling_pb2 import FinishReason
from weir.worker.v1.worker_service_pb2 import KvPolicy
from weir_core.clock import ManualClock
from weir_core.errors import Reason
from weir_worker.abort_cause import STREAM_ENDED, cause_of
from weir_worker.attempts import Attempts
from weir_worker.engine.commands import Abort, Preempt, ReleaseSession, Submit
from weir_worker.engine.engine import Engine
from weir_worker.engine.events import Delta
from weir_worker.engine.intake import ServedModel as EngineModel
from weir_worker.engine.limits import StepLimits
from weir_worker.engine.null_folder import null_tokenizer
from weir_worker.engine.null_model import NullRunner
from weir_worker.grant_check import GrantCheck
from weir_worker.kv import KvManager
from weir_worker.running_attempt import RunningAttempt
from weir_worker.start_check import ServedModel, StartCheck
from weir_worker.start_refused import StartRefused
from weir_worker.terminal_records import AttemptKey, TerminalRecords
from weir_worker.text import detokenizer_factory

REQUESTS = st.sampled_from(["a", "b", "c", "d", "e"])
NUMBERS = st.integers(1, 4)
BLOCKS = 16
DETOKENIZERS = detokenizer_factory(null_tokenizer())


class StepEngine:
    """Commands go straight into the engine; steps are taken by the test."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def submit(self, submit: Submit) -> None:
        self._engine.apply(submit)

    def release_session(self, tenant: str, session: str) -> None:
        self._engine.apply(ReleaseSession(tenant, session))

    def abort(self, request_id: str, attempt: int, reason: Reason, message: str) -> None:
        self._engine.apply(Abort(request_id, attempt, reason, message))


class Anything:
    """What a grammar becomes here: it lets everything follow."""

    problem = ""
    complete = False

    def allowed(self) -> bytes:
        return b""

    def note(self, token_id: int) -> None:
        pass


@dataclass
class Heard:
    """A sink that remembers."""

    tokens: dict[AttemptKey, int] = field(default_factory=dict)
    told: dict[AttemptKey, int] = field(default_factory=dict)
    records: list[TerminalRecord] = field(default_factory=list)

    def on_delta(self, attempt: RunningAttempt, delta: Delta, choice: int) -> None:
        assert attempt.key not in {key_of(record) for record in self.records}
        self.tokens[attempt.key] = self.tokens.get(attempt.key, 0) + len(delta.token_ids)
        self.told[attempt.key] = self.told.get(attempt.key, 0) + len(delta.prompt_logprobs)

    def on_terminal(self, record: TerminalRecord) -> None:
        self.records.append(record)


class AttemptsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.engine = Engine(
            EngineModel("test-model", 259, 256, ()),
            NullRunner(),
            KvManager(BLOCKS, 16, verify_tokens=True),
            DETOKENIZERS,
            StepLimits(max_step_tokens=32, max_running=4),
            self.clock,
            lambda tenant, grammar: Anything(),
        )
        self.attempts = Attempts(
            StepEngine(self.engine),
            StartCheck(ServedModel("test-model", 259, 256), self.clock),
            GrantCheck("w", b"s", self.clock, required=False),
            TerminalRecords(self.clock),
            worker_id="w",
            clock=self.clock,
            max_running=6,
        )
        self.heard = Heard()
        self.started: set[AttemptKey] = set()
        self.told: dict[AttemptKey, int] = {}
        self.newest: dict[str, int] = {}

    @rule(
        request_id=REQUESTS,
        number=NUMBERS,
        prompt=st.integers(1, 120),
        length=st.integers(1, 20),
        kind=st.sampled_from(["plain", "several", "told", "session", "grammar"]),
        quota=st.sampled_from([0, 160]),
        left_ms=st.sampled_from([0, 4, 1_000]),
    )
    def start(
        self,
        request_id: str,
        number: int,
        prompt: int,
        length: int,
        kind: str,
        quota: int,
        left_ms: int,
    ) -> None:
        attempt = Attempt(request_id=request_id, number=number)
        wanted = spec(attempt, prompt=prompt, max_new_tokens=length)
        wanted.kv.MergeFrom(KvPolicy(max_tokens=quota, session_ttl_ms=60_000))
        if left_ms:
            wanted.deadline.FromMicroseconds(self.clock.now_us() + left_ms * 1_000)
        wanted.sampling.n = 3 if kind == "several" else 1
        wanted.private_scope = "s" if kind == "session" else ""
        if kind == "told":
            wanted.sampling.prompt_logprobs = 1
        if kind == "grammar":
            wanted.grammar.regex = ".*"
        key = (request_id, number)
        running = {one.key for one in self.attempts.running()}
        try:
            begun = self.attempts.start(SignedGrant(), wanted, self.heard)
        except StartRefused as refused:
            self.check_refusal(key, refused)
            return
        assert begun.key == key
        assert key in running or number > self.newest.get(request_id, 0)
        self.started.add(key)
        # The same start once more changes nothing.
        if kind == "told" and key not in running:
            self.told[key] = prompt - 1
        self.newest[request_id] = max(number, self.newest.get(request_id, 0))

    def check_refusal(self, key: AttemptKey, refused: StartRefused) -> None:
        assert refused.record.finish_reason == FinishReason.FINISH_REASON_REJECTED
        if refused.error.reason is Reason.STALE_ATTEMPT:
            assert key[1] <= self.newest.get(key[0], 0)
        else:
            assert refused.error.reason is Reason.QUEUE_FULL
            assert sum(attempt.places for attempt in self.attempts.running()) > 3
        if key not in self.started:
            # The refusal is the end of it.
            self.newest[key[0]] = max(key[1], self.newest.get(key[0], 0))

    @rule(request_id=REQUESTS, number=NUMBERS, cause=st.sampled_from(list(Outcome.values())))
    def abort(self, request_id: str, number: int, cause: Outcome.ValueType) -> None:
        known = self.attempts.abort((request_id, number), cause_of(cause))
        assert known or (request_id, number) not in self.started
        if not known:
            self.newest[request_id] = max(number, self.newest.get(request_id, 0))

    @rule(request_id=REQUESTS)
    def preempt(self, request_id: str) -> None:
        self.engine.apply(Preempt(request_id))

    @rule(steps=st.integers(1, 8))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.advance_us(1000)
            self.attempts.on_step(self.engine.step())

    @rule()
    def stream_ends(self) -> None:
        self.attempts.abort_all(STREAM_ENDED)

    @invariant()
    def every_start_has_at_most_one_end(self) -> None:
        ended = [key_of(record) for record in self.heard.records]
        assert len(ended) == len(set(ended))
        running = {attempt.key for attempt in self.attempts.running()}
        assert running.isdisjoint(ended)
        assert running | set(ended) == self.started

    @invariant()
    def usage_is_what_was_told(self) -> None:
        for record in self.heard.records:
            assert record.usage.completion_tokens == self.heard.tokens.get(key_of(record), 0)
            assert self.attempts.records.get(*key_of(record)) == record

    @invariant()
    def prompts_are_told_whole(self) -> None:
        for key, tokens in self.heard.tokens.items():
            if tokens:
                assert self.heard.told[key] == self.told.get(key, 0)

    @invariant()
    def books_balance(self) -> None:
        self.engine.check_integrity()

    def teardown(self) -> None:
        self.attempts.abort_all(STREAM_ENDED)
        for _ in range(3):
            self.attempts.on_step(self.engine.step())
        assert not len(self.attempts)
        assert {key_of(record) for record in self.heard.records} == self.started
        self.engine.check_integrity()
        load = self.engine.heartbeat().load
        assert load.held_blocks == load.pinned_blocks
        self.engine.apply(ReleaseSession("acme", "s"))
        load = self.engine.heartbeat().load
        assert load.held_blocks == 0
        assert load.free_blocks + load.cached_blocks == BLOCKS


def key_of(record: TerminalRecord) -> AttemptKey:
    return record.attempt.request_id, record.attempt.number


TestAttemptsMachine = AttemptsMachine.TestCase
TestAttemptsMachine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
