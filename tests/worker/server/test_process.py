"""The worker as a process: `python -m weir_worker`."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import pytest
from pydantic import SecretStr

from tests.worker.server.support import SECRET, TRACE_ID, eventually, spec
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.sampling_pb2 import FinishReason
from weir.worker.v1.worker_service_pb2 import GenerateRequest, GenerateResponse
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from weir_core.rpc.channel import ServiceChannel, open_channel

ARGUMENTS = (
    "--model-name=test-model",
    "--address=127.0.0.1:0",
    "--metrics-address=127.0.0.1:0",
    "--null-step-us=2000",
    "--max-context=100000",
    "--num-blocks=8192",
)


@dataclass
class WorkerProcess:
    process: Process
    ready: dict[str, str]
    channel: ServiceChannel

    async def engine_pid(self) -> int:
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        (child,) = (await asyncio.to_thread(open, children)).read().split()
        return int(child)

    async def end(self) -> tuple[int, str]:
        """Exit status, and what was written on stderr."""
        async with asyncio.timeout(15):
            _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()

    def generate(
        self, max_new_tokens: int
    ) -> grpc.aio.UnaryStreamCall[GenerateRequest, GenerateResponse]:
        stub = WorkerServiceStub(self.channel)
        return stub.Generate(GenerateRequest(spec=spec(max_new_tokens=max_new_tokens)))


@asynccontextmanager
async def worker_process(*arguments: str) -> AsyncIterator[WorkerProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "weir_worker", *ARGUMENTS, *arguments,
        stdout=PIPE, stderr=PIPE, env={**os.environ, "WEIR_CLUSTER_TOKEN": SECRET},
    )  # fmt: skip
    channel = None
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            ready = json.loads(await process.stdout.readline())
        assert ready["event"] == "ready", ready
        channel = open_channel(ready["grpc"], name="worker", token=SecretStr(SECRET))
        yield WorkerProcess(process, ready, channel)
    finally:
        if channel is not None:
            await channel.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_sigterm_lets_the_running_end_and_refuses_the_new() -> None:
    async with worker_process("--drain-s=20") as worker:
        call = worker.generate(500)
        events = [await anext(aiter(call))]
        worker.process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.aio.AioRpcError, match="draining"):
            await until_refused(worker)
        events += [event async for event in call]
        assert events[-1].terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH
        assert events[-1].terminal.usage.completion_tokens == 500
        status, errors = await worker.end()
        assert status == 0, errors
        # Logs are JSON, and hold no text of a request.
        lines = [json.loads(line) for line in errors.splitlines()]
        assert {line["service"] for line in lines} <= {"weir-worker", "weir-worker-engine"}
        ended = next(line for line in lines if line["event"] == "attempt_ended")
        assert ended["tenant_id"] == "acme"
        assert ended["trace_id"] == TRACE_ID
        assert ended["completion_tokens"] > 0
        for text in ("ABCDEFGH", "".join(event.delta.text for event in events)[:20]):
            assert text not in errors


async def test_sigterm_aborts_with_a_reason_what_outlives_the_grace() -> None:
    async with worker_process("--drain-s=2") as worker:
        call = worker.generate(90_000)
        events = [await anext(aiter(call))]
        worker.process.send_signal(signal.SIGTERM)
        events += [event async for event in call]
        record = events[-1].terminal
        assert record.finish_reason == FinishReason.FINISH_REASON_ABORT
        assert record.error_reason == ErrorReason.ERROR_REASON_DRAINING
        assert record.usage.completion_tokens == sum(len(e.delta.token_ids) for e in events)
        status, errors = await worker.end()
        assert status == 0, errors


async def test_a_lost_engine_ends_the_process_with_one_line() -> None:
    async with worker_process() as worker:
        call = worker.generate(90_000)
        events = [await anext(aiter(call))]
        engine = await worker.engine_pid()
        os.kill(engine, signal.SIGKILL)
        events += [event async for event in call]
        assert events[-1].terminal.error_reason == ErrorReason.ERROR_REASON_WORKER_LOST
        status, errors = await worker.end()
        assert status == 1
        plain = [line for line in errors.splitlines() if not line.startswith("{")]
        assert len(plain) == 1, errors
        assert plain[0].startswith("weir-worker: the engine is lost")
        await eventually(lambda: not lives(engine))


async def test_an_engine_ends_with_its_server_process() -> None:
    async with worker_process() as worker:
        engine = await worker.engine_pid()
        worker.process.kill()
        await worker.process.wait()
        await eventually(lambda: not lives(engine))


async def until_refused(worker: WorkerProcess) -> None:
    """Sends starts until the drain has begun."""
    async with asyncio.timeout(5):
        while True:
            async for _ in worker.generate(1):
                pass


def lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
