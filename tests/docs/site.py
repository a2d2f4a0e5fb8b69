"""The stack that the pages speak of: the addresses of `weir up`, its tenant `demo`, and `acme`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cli.command import weir
from tests.cli.running_stack import SERVING, RunningStack
from tests.tiny_llama import write_tiny_llama
from weir_core.model_folder import ModelFolder, models_home
from weir_gateway.keys import generate_key
from weir_worker.engine.config import NULL_MODEL
from weir_worker.engine.null_folder import ensure_null_model

# Names that pages call models by; one that computes nothing answers to all of them.
_ALIASES = ["smollm2", "smollm2-135m-instruct", "large", "assistant"]
_LIMITS = [
    {"resource": "concurrency", "limit": 64},
    {"resource": "requests", "rate": "1000/s"},
    {"resource": "tokens", "rate": "10M/min"},
    {"resource": "tokens", "limit": "500M", "window": "day"},
    {"resource": "cost", "limit": 1000, "window": "month"},
]
# Those that pages say to start with.
_SETTINGS = {
    "WEIR_GATEWAY__WEBHOOKS_OVER_HTTP": "true",
    "WEIR_GATEWAY__WEBHOOKS_TO_PRIVATE_ADDRESSES": "true",
}


@dataclass(frozen=True)
class DocsStack:
    """Where it runs, and who asks it."""

    running: RunningStack
    directory: Path
    key: str
    model_folder: Path

    @property
    def state(self) -> Path:
        return self.running.folder / "state"

    def environment(self) -> dict[str, str]:
        """What the `export` line of `weir up` sets, and where commands find the stack."""
        return {
            "WEIR_URL": f"http://{self._http}",
            "WEIR_TARGET": self.running.value("gRPC"),
            "WEIR_API_KEY": self.key,
            "WEIR_MODEL": self.running.value("model"),
            "WEIR_ADMIN_SECRET": (self.state / "admin_secret").read_text().strip(),
            "TOKENWEIR_HOME": str(self.running.folder / "home"),
        }

    def told_to(self, text: str) -> str:
        """A block with the addresses of `weir up` by default replaced by those of this one."""
        for usual, own in self._addresses().items():
            text = text.replace(f"127.0.0.1:{usual}", own).replace(f"localhost:{usual}", own)
        return text

    @property
    def _http(self) -> str:
        return self.running.value("OpenAI base").removeprefix("http://").removesuffix("/v1")

    def _addresses(self) -> dict[int, str]:
        metrics = {
            line.split()[2]: line.split()[1].removeprefix("http://").removesuffix("/metrics")
            for line in self.running.output.splitlines()
            if line.startswith("metrics ") and len(line.split()) > 2
        }
        addresses = {8000: self._http, 8001: self.running.value("gRPC")}
        for port, service in ((8002, "ratelimiter"), (8003, "scheduler"), (8010, "worker-1")):
            settings = yaml.safe_load((self.state / f"{service}.yaml").read_text())
            addresses[port] = str(settings["address"])
            addresses[port + 1000] = metrics.get(service, str(settings["metrics_address"]))
        return addresses


@contextmanager
def docs_stack(folder: Path, model_folder: Path | None = None) -> Iterator[DocsStack]:
    """Runs it; blocks until it serves.

    Args:
        model_folder: of a model that computes; None: the one that does not.
    """
    served = ModelFolder(model_folder or ensure_null_model(models_home() / NULL_MODEL))
    key = generate_key("docs")
    directory = folder / "directory.yaml"
    directory.write_text(yaml.safe_dump(_document(served, key.id, key.hash.hex()), sort_keys=False))
    with RunningStack(
        folder,
        *(("--model", str(model_folder)) if model_folder else ("--null",)),
        *("--directory", str(directory)),
        *("--database", f"sqlite:///{folder}/directory.sqlite"),
        environment={"WEIR_API_KEY": key.secret, **_SETTINGS},
    ) as running:
        running.wait_for(SERVING)
        # Where `weir up` writes that of its demo tenant.
        (folder / "state" / "directory.yaml").write_text(directory.read_text())
        # So that the ledger has a row of it.
        where = ("--state-dir", str(folder / "state"))
        note = ("--note", "before it leaves")
        taken = weir("limits", "adjust", "globex", "tpm", "5", "--take", *note, *where)
        assert taken.returncode == 0, taken.stderr
        model = write_tiny_llama(folder / "tiny-llama")
        yield DocsStack(running, directory, key.secret, model)


def _document(served: ModelFolder, key_id: str, key_hash: str) -> dict[str, Any]:
    owner = {"id": key_id, "user": "demo", "hash": f"sha256:{key_hash}"}
    return {
        "plans": [{"id": "demo", "limits": _LIMITS}],
        "models": [
            {
                "name": served.path.name,
                "aliases": [alias for alias in _ALIASES if alias != served.path.name],
                "versions": [{"version": "1", "folder": str(served.path)}],
                "max_context": served.max_context,
                "price": {"input": 0.15, "output": 0.6},
            }
        ],
        "tenants": [
            {"id": "demo", "plan": "demo", "users": [{"id": "demo"}], "keys": [owner]},
            {"id": "acme", "plan": "demo", "users": [{"id": "alice"}], "keys": []},
            {"id": "globex", "plan": "demo", "users": [{"id": "bob"}], "keys": []},
        ],
    }
