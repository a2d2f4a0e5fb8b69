"""Drives an engine step by step and holds its outputs against what must always be true."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.worker.engine.paged_fake import VOCAB, FakeHost, OverlappedFake, PagedFake
from weir_core.clock import ManualClock
from weir_worker.engine.commands import Abort, Submit
from weir_worker.engine.engine import Engine
from weir_worker.engine.events import FinishReason, Prefilled, StepOutput, Terminal
from weir_worker.engine.intake import ServedModel
from weir_worker.engine.limits import StepLimits
from weir_worker.engine.null_folder import null_tokenizer
from weir_worker.engine.runner import StepRunner
from weir_worker.grammars.compilations import Compile
from weir_worker.kv import KvManager
from weir_worker.sampling import SamplingParams, TokenLogprobs
from weir_worker.text import DetokenizerFactory, detokenizer_factory

GREEDY = SamplingParams(temperature=0.0)


def submission(
    request_id: str, prompt: Sequence[int], max_new_tokens: int = 8, **fields: object
) -> Submit:
    values: dict[str, object] = {"attempt": 1, "tenant": "acme", "sampling": GREEDY, **fields}
    return Submit(
        request_id=request_id,
        prompt_token_ids=list(prompt),
        max_new_tokens=max_new_tokens,
        **values,  # type: ignore[arg-type]
    )


@dataclass
class Record:
    """Everything heard of one attempt."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    prefilled: list[Prefilled] = field(default_factory=list)
    terminal: Terminal | None = None


class Driver:
    """An engine on a clock that stands still, with its books checked after every step."""

    def __init__(
        self,
        *,
        num_blocks: int = 64,
        block_size: int = 4,
        max_step_tokens: int = 64,
        max_running: int = 16,
        max_prefill_chunk: int = 0,
        watermark_blocks: int = 0,
        max_step_context_tokens: int = 0,
        max_step_us: int = 0,
        cache_ttl_us: int = 0,
        max_context: int = 4096,
        eos: tuple[int, ...] = (),
        runner: StepRunner | None = None,
        vocab: int = VOCAB,
        detokenizers: DetokenizerFactory | None = None,
        compile_grammar: Compile | None = None,
        host_blocks: int = 0,
    ) -> None:
        self.clock = ManualClock()
        self.fake = PagedFake(num_blocks, block_size)
        self.kv = KvManager(
            num_blocks,
            block_size,
            cache_ttl_us=cache_ttl_us,
            verify_tokens=True,
            host=FakeHost(_fake_of(runner) or self.fake, host_blocks) if host_blocks else None,
        )
        self.limits = StepLimits(
            max_step_tokens,
            max_running,
            max_prefill_chunk,
            watermark_blocks,
            max_step_context_tokens,
            max_step_us,
        )
        self.engine = Engine(
            ServedModel("fake", vocab, max_context, eos),
            runner or self.fake,
            self.kv,
            detokenizers or detokenizer_factory(null_tokenizer()),
            self.limits,
            self.clock,
            compile_grammar,
        )
        self.records: dict[tuple[str, int], Record] = {}
        self.outputs: list[StepOutput] = []
        self._unheard: StepOutput | None = None

    def submit(self, request_id: str, prompt: Sequence[int], length: int = 8, **f: object) -> None:
        command = submission(request_id, prompt, length, **f)
        self.records.setdefault((request_id, command.attempt), Record())
        self.engine.apply(command)

    def abort(self, request_id: str, attempt: int = 1) -> None:
        self.engine.apply(Abort(request_id, attempt))

    def step(self) -> StepOutput:
        self.clock.advance_us(1000)
        busy = self.engine.has_work()
        output = self.engine.step(self._hear) if busy else self.engine.heartbeat()
        self.engine.check_integrity()
        self._hear()
        self._unheard = output
        if not (self.engine.overlaps and self.engine.has_work()):
            self._hear()
        return output

    def run(self, most: int = 5000) -> None:
        """Step until nothing is left, then check that nothing is held."""
        for _ in range(most):
            if not self.engine.has_work():
                break
            self.step()
        else:
            raise AssertionError(f"still busy after {most} steps")
        self.step()
        self.assert_idle()

    def assert_idle(self) -> None:
        load = self.engine.heartbeat().load
        assert load.running == load.waiting == load.pending_prefill_tokens == 0
        assert load.held_blocks == load.pinned_blocks
        assert load.held_blocks or not load.stranded_tokens
        assert not any(account.running or account.tables for account in self.kv.accounts())
        assert all(record.terminal is not None for record in self.records.values())

    def record(self, request_id: str, attempt: int = 1) -> Record:
        return self.records[request_id, attempt]

    def terminal(self, request_id: str, attempt: int = 1) -> Terminal:
        terminal = self.record(request_id, attempt).terminal
        assert terminal is not None, f"{request_id} has no terminal"
        return terminal

    def reason(self, request_id: str) -> FinishReason:
        return self.terminal(request_id).finish_reason

    def _hear(self) -> None:
        """Note the last output, which is whole by now."""
        if self._unheard is not None:
            output, self._unheard = self._unheard, None
            self._note(output)

    def _note(self, output: StepOutput) -> None:
        self.outputs.append(output)
        load = output.load
        assert load.free_blocks + load.cached_blocks + load.held_blocks == load.total_blocks
        assert load.step_tokens <= self.engine.planner.limits.max_step_tokens
        heard = [(delta.request_id, delta.attempt) for delta in output.deltas]
        assert len(heard) == len(set(heard)), "two deltas of one attempt in a frame"
        for prefilled in output.prefilled:
            self.records[prefilled.request_id, prefilled.attempt].prefilled.append(prefilled)
        for delta in output.deltas:
            record = self.records[delta.request_id, delta.attempt]
            assert record.terminal is None, "a delta after the terminal"
            record.tokens.extend(delta.token_ids)
            record.text += delta.text
            record.logprobs.extend(delta.logprobs)
            record.prompt_logprobs.extend(delta.prompt_logprobs)
        for terminal in output.terminals:
            record = self.records[terminal.request_id, terminal.attempt]
            assert record.terminal is None, "a second terminal"
            record.terminal = terminal
            assert terminal.usage.completion_tokens == len(record.tokens)


def _fake_of(runner: StepRunner | None) -> PagedFake | None:
    return runner.fake if isinstance(runner, OverlappedFake) else None
