"""A whole deployment on this machine: from options to a served answer and back to nothing."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import SecretStr

from weir_cli.stack.child import ChildSpec
from weir_cli.stack.demo_directory import demo_directory
from weir_cli.stack.directory_watch import DirectoryWatch
from weir_cli.stack.elasticity import Elasticity, elasticity_of
from weir_cli.stack.first_answer import first_answer
from weir_cli.stack.first_start import start_all
from weir_cli.stack.fleet_look import SchedulerOrders
from weir_cli.stack.health import knows_key, wait_ready, wait_serving, wait_workers
from weir_cli.stack.options import StackOptions
from weir_cli.stack.own_directory import own_versions
from weir_cli.stack.ports import DEFAULT_PORT, Port, PortClaims
from weir_cli.stack.running import Door
from weir_cli.stack.scrape_targets import ScrapeTargets
from weir_cli.stack.served_model import ServedModel, choose_models
from weir_cli.stack.services import (
    GATEWAY,
    RATELIMITER,
    StackPlan,
    scheduler_names,
    wanted_ports,
)
from weir_cli.stack.stack_tls import StackTls
from weir_cli.stack.state_dir import StateDir, new_run_folder
from weir_cli.stack.supervisor import Supervisor
from weir_cli.stack.welcome import Welcome
from weir_cli.stack.worker_plan import WorkerPlan, plan_workers
from weir_gateway.keys import generate_key

_HEALTH_DEADLINE_S = 60.0


__all__ = ["LocalStack", "StackOptions"]


class LocalStack:
    """Starts the services, proves with one answer that they work, serves, and ends them.

    Args:
        options: what the user asked for.
        write: gets text for the person at the terminal.
        warn: gets lines about trouble, one at a time.
    """

    def __init__(
        self, options: StackOptions, write: Callable[[str], None], warn: Callable[[str], None]
    ) -> None:
        self._options = options
        self._write = write
        self._warn = warn
        self._state: StateDir | None = None
        self._supervisor: Supervisor | None = None
        self._directory: Path | None = None
        self._workers: list[WorkerPlan] = []
        self._plan: StackPlan | None = None
        self._welcome: Welcome | None = None
        self._tls: StackTls | None = None
        self._targets: ScrapeTargets | None = None
        self._claims = PortClaims()

    @property
    def welcome(self) -> Welcome:
        """Where it is reached and with which key. Raises RuntimeError before `start`."""
        if self._welcome is None:
            raise RuntimeError("the stack has not started")
        return self._welcome

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the services by name."""
        return self._supervisor.pids if self._supervisor else {}

    def address(self, service: str) -> str:
        """`host:port` of a service's gRPC server. Raises RuntimeError before `start`."""
        if self._supervisor is None:
            raise RuntimeError("the stack has not started")
        return self._supervisor.child(service).ready["grpc"]

    def worker_id(self, name: str) -> str:
        """Under which id the process `name` registered. Raises RuntimeError before `start`."""
        if self._supervisor is None:
            raise RuntimeError("the stack has not started")
        return self._supervisor.child(name).ready["worker_id"]

    async def start(self) -> None:
        """Returns when every service serves and every worker is registered.

        Raises CommandError. Call `stop` in either case.
        """
        began = time.monotonic()
        options = self._options
        state = self._state = StateDir(options.state_dir or new_run_folder())
        self._tls = StackTls(options.tls) if options.tls else None
        upstream = options.upstream()
        models = await choose_models(
            options.models, options.null, self._say, weights=upstream is None
        )
        versions = None
        if options.directory:
            # Another engine has one version; and what follows the load is the number of one.
            several = upstream is None and not options.worker_range.elastic
            versions = own_versions(options.directory, models, self._warn, several=several)
        self._workers = plan_workers(
            models,
            options.worker_range,
            cores=os.cpu_count() or 1,
            kv_memory=options.kv_memory,
            upstream=upstream,
            versions=versions,
        )
        ports = self._choose_ports()
        key, directory = self._key_and_directory(state, models)
        self._directory = directory
        plan = self._plan = StackPlan(
            self._workers,
            directory,
            ports,
            options.otlp,
            options.store,
            options.worker_range,
            options.schedulers,
            options.database,
            self._tls,
            options.environment,
        )
        self._say(f"Starting Tokenweir (logs: {state.logs})")
        supervisor = self._supervisor = Supervisor(plan.specs(state), self._say)
        await start_all(supervisor)
        await self._wait_healthy(supervisor, state.cluster_secret())
        self._say(f"All healthy after {time.monotonic() - began:.1f} s")
        if options.database and not await knows_key(
            supervisor.child(GATEWAY).ready["http"], key, self._ca
        ):
            # The database was filled before: whoever has a key of it has it.
            key = ""
        self._welcome = self._make_welcome(supervisor, models, key, state)
        self._targets = self._make_targets(supervisor, state)
        self._targets.write()

    async def serve(self, once: bool) -> None:
        """Streams the first answer, then keeps everything up until cancelled, unless `once`.

        Raises CommandError when there is no answer.
        """
        welcome = self._welcome
        if welcome is None:
            raise RuntimeError("serve() before start()")
        keeping = asyncio.create_task(self.keep_up())
        try:
            if welcome.key:
                await first_answer(welcome, self._write)
            else:
                self._say("\nThe first answer is skipped: WEIR_API_KEY is not set")
            self._write(welcome.text())
            if not once:
                self._say("Serving until Ctrl-C")
                await keeping
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})

    async def keep_up(self) -> None:
        """Restarts what ends and tells what the gateway refuses, until cancelled.

        `serve` does so by itself.
        """
        supervisor, directory = self._supervisor, self._directory
        if supervisor is None or directory is None:
            raise RuntimeError("keep_up() before start()")
        watch = DirectoryWatch(
            directory,
            lambda: supervisor.child(GATEWAY).ready["http"],
            self._warn,
            self._say,
            ca=self._ca,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.keep_up())
            if self._targets is not None:
                group.create_task(self._targets.run())
            if not self._options.database:
                group.create_task(watch.run())
            if self._options.worker_range.elastic:
                group.create_task(self._elasticity(supervisor).run())

    async def stop(self) -> None:
        """Drains and ends every service in order; a second Ctrl-C calls `kill`."""
        if self._supervisor is not None:
            if self._welcome is not None:
                self._say("\nDraining; Ctrl-C again to end at once")
            await self._supervisor.stop()
        self._claims.release()
        if self._state is not None:
            self._state.release()

    async def kill(self) -> None:
        """Ends every service at once."""
        if self._supervisor is not None:
            await self._supervisor.kill()

    def _choose_ports(self) -> dict[str, Port]:
        asked = self._options.port
        first = DEFAULT_PORT if asked is None else asked
        wanted = wanted_ports(
            first,
            len(self._first_workers),
            self._options.schedulers,
            internal=self._tls is not None,
        )
        ports = self._claims.choose(wanted, required="gateway http" if asked else "")
        for port in ports.values():
            if port.wanted not in {0, port.number}:
                self._warn(f"port {port.wanted} is taken; {port.name} gets {port.number}")
        return ports

    def _key_and_directory(
        self, state: StateDir, models: Sequence[ServedModel]
    ) -> tuple[str, Path]:
        if self._options.directory:
            return self._options.api_key, self._options.directory
        key = generate_key("dev")
        if self._options.database and self._options.api_key:
            return self._options.api_key, state.write_private(
                "directory.yaml", demo_directory(models, key)
            )
        return key.secret, state.write_private("directory.yaml", demo_directory(models, key))

    async def _wait_healthy(self, supervisor: Supervisor, secret: str) -> None:
        workers = self._first_workers
        names = [RATELIMITER, *self._schedulers, GATEWAY, *workers]
        addresses = {name: supervisor.child(name).ready["grpc"] for name in names}
        await wait_serving(addresses, _HEALTH_DEADLINE_S, self._tls)
        schedulers = self._scheduler_addresses(supervisor)
        await wait_workers(schedulers, secret, workers, _HEALTH_DEADLINE_S, self._tls)
        await wait_ready(supervisor.child(GATEWAY).ready["http"], _HEALTH_DEADLINE_S, self._ca)

    def _make_targets(self, supervisor: Supervisor, state: StateDir) -> ScrapeTargets:
        return ScrapeTargets(
            state.path,
            lambda: {name: supervisor.child(name).ready for name in supervisor.pids},
            encrypted=self._tls is not None,
        )

    def _make_welcome(
        self, supervisor: Supervisor, models: Sequence[ServedModel], key: str, state: StateDir
    ) -> Welcome:
        gateway = supervisor.child(GATEWAY).ready
        metrics = {GATEWAY: gateway["http"]}
        for name in (RATELIMITER, *self._schedulers, *self._first_workers):
            metrics[name] = supervisor.child(name).ready["metrics"]
        return Welcome(
            http=gateway["http"],
            grpc=gateway["grpc"],
            model=models[0].name,
            more_models=tuple(model.name for model in models[1:]),
            has_template=models[0].has_template,
            key=key,
            new_key=bool(key) and self._options.directory is None,
            state=state.path,
            metrics=metrics,
            admin_secret=state.admin_secret(),
            ca=self._ca,
        )

    @property
    def _ca(self) -> Path | None:
        """What clients must trust; None: everything is plain."""
        return self._tls.ca if self._tls is not None else None

    @property
    def _first_workers(self) -> list[str]:
        """Names of the workers that are started at once."""
        return [worker.name for worker in self._workers if not worker.spare]

    @property
    def _schedulers(self) -> list[str]:
        return scheduler_names(self._options.schedulers)

    def _scheduler_addresses(self, supervisor: Supervisor) -> str:
        """Of all, separated by commas; the active one is found among them."""
        return ",".join(supervisor.child(name).ready["grpc"] for name in self._schedulers)

    def _elasticity(self, supervisor: Supervisor) -> Elasticity:
        """Follows the load with the spare workers."""
        state, plan = self._state, self._plan
        if state is None or plan is None:
            raise RuntimeError("keep_up() before start()")
        operator = self._tls.operator() if self._tls is not None else None
        secret = SecretStr(state.cluster_secret())
        door = Door(self._scheduler_addresses(supervisor), secret, operator)
        specs: dict[str, dict[str, ChildSpec]] = {}
        for worker in self._workers:
            specs.setdefault(worker.model.name, {})[worker.name] = plan.worker_spec(state, worker)
        return elasticity_of(
            specs, self._options.worker_range, supervisor, SchedulerOrders(door), self._say
        )

    def _say(self, line: str) -> None:
        self._write(f"{line}\n")
