"""How the services of one machine are started: commands, settings files, addresses."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from weir_cli.stack.child import ChildSpec
from weir_cli.stack.ports import DEFAULT_PORT, HOST, Port
from weir_cli.stack.stack_tls import StackTls
from weir_cli.stack.state_dir import StateDir
from weir_cli.stack.worker_plan import WorkerPlan, worker_names
from weir_cli.stack.worker_range import WorkerRange

RATELIMITER, SCHEDULER, GATEWAY = "ratelimiter", "scheduler", "gateway"
INTERNAL = "gateway internal"
# The gateway stops taking requests first and ends last of what depends on the others.
_STAGES = {RATELIMITER: 0, SCHEDULER: 1, GATEWAY: 3}
_WORKER_STAGE = 2
# Beyond the worker's own engine_start_timeout_s, which says more.
_WORKER_START_S = 330.0
_DRAIN_S = 30.0
_GRACE_S = 5.0
_ONE = WorkerRange()


@dataclass(frozen=True, slots=True)
class StackPlan:
    """What is to run.

    Attributes:
        workers: what each worker serves, spare ones included.
        directory: the directory file.
        ports: see `wanted_ports`.
        otlp: OTLP/gRPC endpoint for traces; empty for none.
        store: where limits are counted; empty for the ratelimiter's own choice.
        worker_range: how many workers each model may have.
        schedulers: of which one is active.
        database: URL of the directory's database; empty: the file alone.
        tls: certificates; None: everything is plain.
        environment: variables of the services beside those of this process.
    """

    workers: Sequence[WorkerPlan]
    directory: Path
    ports: Mapping[str, Port]
    otlp: str
    store: str = ""
    worker_range: WorkerRange = _ONE
    schedulers: int = 1
    database: str = ""
    tls: StackTls | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def specs(self, state: StateDir) -> list[ChildSpec]:
        """Writes each service's settings file and returns how to start what is started first."""
        return [
            self._spec(state, RATELIMITER, RATELIMITER, self._ratelimiter(state)),
            *(
                self._spec(state, name, SCHEDULER, self._scheduler(state, name))
                for name in scheduler_names(self.schedulers)
            ),
            *(self.worker_spec(state, worker) for worker in self.workers if not worker.spare),
            self._spec(state, GATEWAY, GATEWAY, self._gateway(state)),
        ]

    def worker_spec(self, state: StateDir, worker: WorkerPlan) -> ChildSpec:
        """Writes one worker's settings file and returns how to start it."""
        return self._spec(state, worker.name, "worker", self._worker(worker))

    def _spec(
        self, state: StateDir, name: str, service: str, settings: Mapping[str, Any]
    ) -> ChildSpec:
        common = {
            "supervisor_pid": os.getpid(),
            "drain_s": _DRAIN_S,
            "grace_s": _GRACE_S,
            **({"otlp_endpoint": self.otlp} if self.otlp else {}),
            **(self.tls.settings(service) if self.tls is not None else {}),
        }
        config = state.write_private(f"{name}.yaml", yaml.safe_dump({**settings, **common}))
        return ChildSpec(
            name,
            [sys.executable, "-P", "-m", f"weir_{service}", "--config", str(config)],
            state.logs / f"{name}.log",
            environment=self._environment(state, service),
            start_s=_WORKER_START_S if service == "worker" else None,
            drain_s=_DRAIN_S + _GRACE_S + 10.0,
            stage=_STAGES.get(service, _WORKER_STAGE),
        )

    def _environment(self, state: StateDir, service: str) -> dict[str, str]:
        secrets = {"WEIR_CLUSTER_TOKEN": state.cluster_secret()}
        if service == GATEWAY:
            secrets["WEIR_ADMIN_SECRET"] = state.admin_secret()
        return {**self.environment, **secrets}

    def _ratelimiter(self, state: StateDir) -> dict[str, Any]:
        return {
            "address": self._address(RATELIMITER),
            "metrics_address": self._address(f"{RATELIMITER} metrics"),
            "directory_address": self._address(self._directory),
            "journal": str(state.path / "journal"),
            **({"store": self.store} if self.store else {}),
        }

    @property
    def _directory(self) -> str:
        """Whose port the directory is served at."""
        return "gateway grpc" if self.tls is None else INTERNAL

    @property
    def scheduler_addresses(self) -> str:
        """Of every scheduler, as its peers want it."""
        return ",".join(self._address(name) for name in scheduler_names(self.schedulers))

    def _scheduler(self, state: StateDir, name: str) -> dict[str, Any]:
        bounds = self.worker_range
        scaling = {"min_workers": bounds.least, "max_workers": bounds.most}
        return {
            "address": self._address(name),
            "metrics_address": self._address(f"{name} metrics"),
            "directory_address": self._address(self._directory),
            "scaling": scaling,
            **self._leader_store(state),
        }

    def _leader_store(self, state: StateDir) -> dict[str, Any]:
        if self.schedulers == 1:
            return {}
        return {"leader_store": f"file://{quote(str((state.path / 'leader').resolve()))}"}

    def _worker(self, worker: WorkerPlan) -> dict[str, Any]:
        return {
            "address": self._address(worker.name),
            "metrics_address": self._address(f"{worker.name} metrics"),
            "scheduler_address": self.scheduler_addresses,
            **worker.settings(),
        }

    def _gateway(self, state: StateDir) -> dict[str, Any]:
        file = quote(str((state.path / "state.sqlite").resolve()))
        return {
            "http_address": self._address("gateway http"),
            # The address is of this machine alone.
            "open_metrics": True,
            "grpc_address": self._address("gateway grpc"),
            "ratelimiter_address": self._address(RATELIMITER),
            "scheduler_address": self.scheduler_addresses,
            "directory_file": str(self.directory),
            "state_url": self.database or f"sqlite:///{file}",
            **({"database_url": self.database} if self.database else {}),
            **({} if self.tls is None else {"internal_address": self._address(INTERNAL)}),
        }

    def _address(self, name: str) -> str:
        """Of a spare worker any: a port chosen now may be taken once it is started."""
        port = self.ports.get(name)
        return port.address if port is not None else f"{HOST}:0"


def scheduler_names(schedulers: int) -> list[str]:
    """`scheduler`, `scheduler-2` and so on."""
    return [SCHEDULER, *(f"{SCHEDULER}-{number}" for number in range(2, schedulers + 1))]


def wanted_ports(
    first: int, workers: int, schedulers: int = 1, *, internal: bool = False
) -> list[tuple[str, int]]:
    """Each address's name and port: fixed distances from the HTTP port, 0 for any.

    With the default 8000: HTTP 8000, gRPC 8001, ratelimiter 8002, schedulers from 8003 (five
    at most), workers from 8010, and metrics 1000 above each; with `internal` the directory's own
    8009.
    """
    names = scheduler_names(schedulers)
    offsets = {"gateway http": 0, "gateway grpc": 1, RATELIMITER: 2}
    offsets |= {INTERNAL: 9} if internal else {}
    offsets |= {name: 3 + index for index, name in enumerate(names)}
    offsets |= {name: 10 + index for index, name in enumerate(worker_names(workers))}
    with_metrics = [RATELIMITER, *names, *worker_names(workers)]
    offsets |= {f"{name} metrics": 1_000 + offsets[name] for name in with_metrics}
    return [(name, _port(first, offset)) for name, offset in offsets.items()]


def _port(first: int, offset: int) -> int:
    return first + offset if first and first + offset <= 65_535 else 0


__all__ = ["DEFAULT_PORT", "StackPlan", "scheduler_names", "wanted_ports"]
