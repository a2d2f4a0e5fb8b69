"""Steps that run elsewhere, and recorded decode steps, over a stand-in of CUDA graphs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import torch
from torch.nn import functional

from tests.tiny_llama import EOS_TOKEN_ID, VOCAB_SIZE, tiny_tokenizer, write_tiny_llama
from tests.worker.engine.driver import Driver
from tests.worker.numerics.support import made_up_tokens
from weir_worker.attention import AttentionPlan
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.rows import StepRows
from weir_worker.attention.tables import PagedTables
from weir_worker.engine.commands import Command, Stop, Submit
from weir_worker.engine.cuda_runner import CudaRunner
from weir_worker.engine.decode_graphs import DecodeGraphs
from weir_worker.engine.decode_inputs import DecodeInputs
from weir_worker.engine.graph_recorder import RecordedWork
from weir_worker.engine.loop import EngineLoop
from weir_worker.engine.model_runner import ModelRunner
from weir_worker.engine.runner import StepRunner
from weir_worker.models.base import ForwardBatch, SequenceSlice
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.sampling import SamplingParams, SamplingState
from weir_worker.text import detokenizer_factory

_CPU = torch.device("cpu")
_BLOCKS, _BLOCK_SIZE, _ROWS = 24, 16, 5


class Recorder:
    """Replays by doing the work again into the same memory, as a graph would."""

    def __init__(self) -> None:
        self.recorded: list[int] = []
        self.replayed: list[int] = []

    def record(self, compute: Callable[[], torch.Tensor]) -> RecordedWork:
        output = compute()
        rows = len(output)
        self.recorded.append(rows)

        def replay() -> None:
            self.replayed.append(rows)
            with torch.inference_mode():
                output.copy_(compute())

        return RecordedWork(output, replay)


class TensorAttention(GatherAttention):
    """Plans decodes over tensors, as the Triton backend does, by plain operations on them."""

    def decode_plan(self, rows: StepRows, tables: PagedTables) -> AttentionPlan:
        return TensorPlan(rows, tables)


@dataclass
class TensorPlan:
    rows: StepRows
    tables: PagedTables

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        assert window is None
        outputs = []
        for row, (length, table) in enumerate(
            zip(self.tables.lengths.tolist(), self.tables.blocks, strict=True)
        ):
            used = table[: -(-length // keys.shape[1])].long()
            k, v = (t[used].flatten(0, 1)[:length].transpose(0, 1) for t in (keys, values))
            attended = functional.scaled_dot_product_attention(
                q[row][None, :, None], k[None], v[None], enable_gqa=True
            )
            outputs.append(attended.flatten())
        return torch.stack(outputs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LlamaModel:
    model = load_model(folder, attention="gather_sdpa")
    model._attention = TensorAttention()
    model.allocate_kv(_BLOCKS + 1, _BLOCK_SIZE)
    return model


def graph_runner(model: LlamaModel) -> tuple[CudaRunner, Recorder]:
    recorder = Recorder()
    inputs = DecodeInputs(_ROWS, 8, _BLOCK_SIZE, spare_block=_BLOCKS, device=_CPU)
    runner = CudaRunner(model, _CPU)
    runner.use(DecodeGraphs(model, inputs, recorder))
    return runner, recorder


def driver(runner: StepRunner) -> Driver:
    return Driver(
        num_blocks=_BLOCKS,
        block_size=_BLOCK_SIZE,
        runner=runner,
        vocab=VOCAB_SIZE,
        eos=(EOS_TOKEN_ID,),
        detokenizers=detokenizer_factory(tiny_tokenizer()),
        max_step_tokens=64,
        max_running=_ROWS,
        max_context=128,
    )


def answers(runner: StepRunner) -> list[list[int]]:
    """Greedy and seeded requests that come and go, so that the batch has 1 to 4 rows."""
    run = driver(runner)
    for index, (prompt, length) in enumerate([(3, 9), (15, 6), (16, 4), (17, 2)]):
        params = SamplingParams(temperature=0.9 if index == 1 else 0.0, seed=index)
        tokens = made_up_tokens(prompt, VOCAB_SIZE, seed=index)
        run.submit(f"r{index}", tokens, length, sampling=params)
    run.run()
    return [run.record(f"r{index}").tokens for index in range(4)]


def test_recorded_steps_give_the_tokens_of_steps_as_they_come(model: LlamaModel) -> None:
    runner, recorder = graph_runner(model)
    assert recorder.recorded == [5, 4, 2, 1]
    assert answers(runner) == answers(ModelRunner(model))
    assert set(recorder.replayed) == {4, 2, 1}, "a batch of 3 takes the recording of 4 rows"


def test_rows_that_fill_up_a_recording_write_to_the_spare_block_alone(model: LlamaModel) -> None:
    runner, _ = graph_runner(model)
    assert model._cache is not None
    before = [keys.clone() for keys in model._cache.keys]
    piece = SequenceSlice(20, 1, [3, 7])
    runner.run(ForwardBatch([5] * 3, [piece, SequenceSlice(0, 1, [9]), piece], [0, 1, 2]), [])
    for old, new in zip(before, model._cache.keys, strict=True):
        changed = {int(block) for block in (old != new).flatten(1).any(1).nonzero()}
        assert changed - {_BLOCKS} == {7, 9}


@pytest.mark.parametrize("rows", [2, 40, 512])
def test_warming_up_writes_to_the_spare_block_alone(model: LlamaModel, rows: int) -> None:
    assert model._cache is not None
    before = [keys[:_BLOCKS].clone() for keys in model._cache.keys]
    CudaRunner(model, _CPU).warm_up(_BLOCKS, _BLOCK_SIZE, rows)
    for old, new in zip(before, model._cache.keys, strict=True):
        assert torch.equal(old, new[:_BLOCKS])


def test_only_steps_of_single_rows_that_all_draw_are_replayed(model: LlamaModel) -> None:
    inputs = DecodeInputs(2, 8, _BLOCK_SIZE, _BLOCKS, _CPU)
    graphs = DecodeGraphs(model, inputs, Recorder())
    one, two = SequenceSlice(0, 1, [0]), SequenceSlice(4, 2, [1])
    assert graphs.takes(ForwardBatch([1, 1], [one, one], [0, 1]))
    assert not graphs.takes(ForwardBatch([1, 1], [two], [1]))
    assert not graphs.takes(ForwardBatch([1, 1], [one, one], [0]))
    assert not graphs.takes(ForwardBatch([1] * 3, [one] * 3, [0, 1, 2]))


def test_a_row_of_nan_fails_alone_also_when_chosen_on_the_device(model: LlamaModel) -> None:
    logits = torch.zeros(2, VOCAB_SIZE)
    logits[0, 9], logits[1, 4] = 1.0, float("nan")

    class Model:
        def forward(self, batch: ForwardBatch) -> torch.Tensor:
            return logits

    states = [SamplingState(SamplingParams(temperature=0.0)) for _ in range(2)]
    runner = CudaRunner(Model(), _CPU)  # type: ignore[arg-type]
    samples = runner.run(ForwardBatch([1, 1], [SequenceSlice(0, 1, [0])] * 2, [0, 1]), states)
    assert samples.tokens[0] == 9
    assert samples.failures == {1: "the model's logits are not finite"}


class Link:
    """Commands in, frames out; it notes when each frame was sent."""

    def __init__(self, commands: list[list[Command]], log: list[str]) -> None:
        self._commands = [msgspec.msgpack.encode(each) for each in commands]
        self._log = log
        self.sent = 0

    def receive(self, timeout_s: float) -> list[bytes]:
        return [self._commands.pop(0)] if self._commands else []

    def send(self, frame: bytes) -> None:
        self.sent += 1
        self._log.append("send")


def test_a_frame_is_sent_while_the_next_step_runs(model: LlamaModel) -> None:
    log: list[str] = []

    class Noting(CudaRunner):
        def start(self, *arguments):  # type: ignore[no-untyped-def]
            log.append("start")
            pending = super().start(*arguments)
            wait = pending.wait

            def noted():  # type: ignore[no-untyped-def]
                log.append("wait")
                return wait()

            pending.wait = noted  # type: ignore[method-assign]
            return pending

    run = driver(Noting(model, _CPU))
    submit = Submit(
        request_id="r", attempt=1, tenant="t", prompt_token_ids=[5, 6, 7], max_new_tokens=3
    )
    link = Link([[submit], [], [], [], [Stop("the end")]], log)
    EngineLoop(run.engine, link, heartbeat_s=0.01).run()
    assert log[:9] == ["start", "wait", "start", "send", "wait", "start", "send", "wait", "send"]


def test_a_step_that_nothing_is_drawn_from_is_waited_for_too(model: LlamaModel) -> None:
    log: list[str] = []

    class Noting(CudaRunner):
        def _event(self) -> Callable[[], None]:
            return lambda: log.append("ended")

    runner = Noting(model, _CPU)
    pending = runner.start(ForwardBatch([5, 6], [SequenceSlice(0, 2, [3])], []), [])
    assert log == []
    assert pending.wait().tokens == []
    assert log == ["ended"]


def test_what_fails_while_a_step_runs_is_no_fault_of_the_step(model: LlamaModel) -> None:
    waited: list[int] = []

    class Noting(CudaRunner):
        def start(self, *arguments):  # type: ignore[no-untyped-def]
            pending = super().start(*arguments)
            wait = pending.wait

            def noted():  # type: ignore[no-untyped-def]
                waited.append(1)
                return wait()

            pending.wait = noted  # type: ignore[method-assign]
            return pending

    def fail() -> None:
        raise ValueError("a frame that cannot be encoded")

    run = driver(Noting(model, _CPU))
    run.submit("r", [5, 6, 7], 2)
    for _ in range(2):
        run._note(run.engine.step(fail))
    assert run.terminal("r").finish_reason.value == "length"
    assert len(waited) == 2
