"""Engines of others as processes, from the environments that `make peers` makes."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from bench.peers.home import gguf_file, interpreter, is_installed, model_files

MODEL = "smollm2"
SLOTS = 2
QUEUED = 4
_ROOT = Path(__file__).resolve().parents[3]
_LOAD_S = 400.0
# One thread: several spin while they wait for each other, which stands still on a busy machine.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
_VLLM = (
    "--dtype=float32", "--max-model-len=2048", "--enforce-eager",
    f"--max-num-seqs={SLOTS}", f"--max-num-queued-reqs={QUEUED}",
    f"--served-model-name={MODEL}", "--host=127.0.0.1",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RealEngine:
    """How one is started.

    Attributes:
        environment: of `$PEERS`.
        arguments: of its Python, from a port.
        scheme: of the worker's upstream_url.
        settings: of the worker beside URL and model.
        model: what must be there.
        counts: it tells its usage, and so the worker's is exact.
        slots: requests that it computes at once.
        refusal: the worker's reason for one that it refuses as busy; empty: it queues them.
        too_long: the worker's reason for a prompt beyond the engine's own context.
    """

    environment: str
    arguments: Callable[[int], tuple[str, ...]]
    scheme: str
    model: Path
    settings: tuple[str, ...] = ()
    counts: bool = True
    slots: int = SLOTS
    refusal: str = ""
    too_long: str = "CONTEXT_LENGTH_EXCEEDED"


ENGINES = {
    "vllm-http": RealEngine(
        environment="vllm",
        arguments=lambda port: (
            "-m",
            "vllm.entrypoints.openai.api_server",
            f"--model={model_files('f32')}",
            f"--port={port}",
            *_VLLM,
        ),
        scheme="http",
        model=model_files("f32"),
        refusal="QUEUE_FULL",
    ),
    "vllm-grpc": RealEngine(
        environment="vllm",
        arguments=lambda port: (
            "-m",
            "vllm.entrypoints.launchers.grpc_server",
            f"--model={model_files('f32')}",
            f"--port={port}",
            *_VLLM,
        ),
        scheme="grpc",
        model=model_files("f32"),
        refusal="QUEUE_FULL",
        # Its status tells no more than that the request is at fault.
        too_long="ENGINE_FAILED",
    ),
    "llama-cpp-python": RealEngine(
        environment="llamacpp",
        arguments=lambda port: (
            "-m",
            "bench.peers.llamacpp_server",
            f"--model={gguf_file()}",
            f"--model_alias={MODEL}",
            "--host=127.0.0.1",
            f"--port={port}",
            "--n_ctx=2048",
            "--n_threads=1",
            "--n_threads_batch=1",
            "--interrupt_requests=false",
        ),
        scheme="http",
        model=gguf_file(),
        settings=("--upstream-dialect=llama-cpp-python", "--max-running=1"),
        counts=False,
        slots=1,
        # It ends the stream without a word.
        too_long="WORKER_LOST",
    ),
}


@dataclass(slots=True)
class RunningEngine:
    """One that answers."""

    engine: RealEngine
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def die(self) -> None:
        """At once, with all of its processes."""
        _kill(self.process)


@contextmanager
def running_engine(name: str, folder: Path) -> Iterator[RunningEngine]:
    """Start it, and wait until it answers. Skips where it is not installed."""
    engine = ENGINES[name]
    if not is_installed(engine.environment) or not engine.model.exists():
        pytest.skip(f"the peer {engine.environment} is not installed: make peers")
    port = _free_port()
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(interpreter(engine.environment)), *engine.arguments(port)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env=os.environ | _ENVIRONMENT | {"PYTHONPATH": str(_ROOT)},
            start_new_session=True, cwd=folder,
        )  # fmt: skip
    try:
        path = "/v1" if engine.scheme == "http" else ""
        _await_ready(engine, process, port, log)
        yield RunningEngine(engine, f"{engine.scheme}://127.0.0.1:{port}{path}", process, log)
    finally:
        _kill(process)


def _await_ready(
    engine: RealEngine, process: subprocess.Popen[bytes], port: int, log: Path
) -> None:
    deadline = time.monotonic() + _LOAD_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the engine ended:\n{log.read_text(errors='replace')[-2000:]}")
        if _answers(engine, port):
            return
        time.sleep(0.5)
    raise TimeoutError(f"not ready:\n{log.read_text(errors='replace')[-2000:]}")


def _answers(engine: RealEngine, port: int) -> bool:
    """Its list of models; of a gRPC server, whether it listens, as it does once it is ready."""
    try:
        if engine.scheme == "grpc":
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        with urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, URLError):
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
