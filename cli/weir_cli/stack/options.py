"""What the user of `weir up` asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weir_cli.errors import CommandError
from weir_cli.stack.worker_plan import Upstream
from weir_cli.stack.worker_range import WorkerRange


@dataclass(frozen=True, slots=True)
class StackOptions:
    """What the user asked for; see `weir up --help`.

    Attributes:
        workers: of each model.
        most_workers: up to so many, as the load asks for; 0: no more than `workers`.
        schedulers: of which one is active.
        tls: folder of certificates; None: everything is plain.
        environment: variables of the services beside those of this process.
    """

    workers: int = 1
    most_workers: int = 0
    schedulers: int = 1
    port: int | None = None
    models: tuple[str, ...] = ()
    kv_memory: tuple[str, ...] = ()
    upstream_url: str = ""
    upstream_model: str = ""
    null: bool = False
    directory: Path | None = None
    state_dir: Path | None = None
    otlp: str = ""
    store: str = ""
    database: str = ""
    api_key: str = ""
    tls: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def worker_range(self) -> WorkerRange:
        """How many workers each model may have."""
        return WorkerRange(self.workers, max(self.workers, self.most_workers))

    def upstream(self) -> Upstream | None:
        """What computes in the place of the workers. Raises CommandError."""
        if not self.upstream_url:
            if self.upstream_model:
                raise CommandError("--upstream-model needs --upstream-url")
            return None
        if len(self.models) != 1:
            raise CommandError(
                "--upstream-url needs one --model FOLDER, with tokenizer.json and config.json of "
                "the model that is served there; no weights are read"
            )
        if not self.upstream_model:
            raise CommandError("--upstream-url needs --upstream-model, the model's name there")
        return Upstream(self.upstream_url, self.upstream_model)
