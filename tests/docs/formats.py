"""Blocks that are no programs: what they hold is read by whoever reads it in the product."""

import json
import re
import shutil
import sqlite3
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.docs.blocks import Block
from tests.docs.commands import settings_class
from weir_core.config import load_settings
from weir_gateway.directory.document import Document
from weir_gateway.directory.file import parse_document

SERVICES = ("weir_gateway", "weir_ratelimiter", "weir_scheduler", "weir_worker")
# What a part of a directory file may refer to without saying it.
_REST: dict[str, list[dict[str, Any]]] = {
    "plans": [{"id": "team"}, {"id": "demo"}],
    "models": [
        {
            "name": "large",
            "versions": [{"version": "1", "folder": "/models/l"}],
            "max_context": 8192,
        }
    ],
    "tenants": [{"id": "acme", "plan": "team", "users": [{"id": "alice"}], "keys": []}],
}
_COMMAND = re.compile(
    r"^\s*(?:\$ |weir |make |python |curl |pip |export |docker |git |[A-Z_]+=\S+ )"
)


def check(block: Block, folder: Path) -> None:
    """Raises or asserts if the block is not what its language says."""
    {"json": _json, "yaml": _yaml, "toml": _toml, "text": _text}[block.language](block, folder)


def _json(block: Block, folder: Path) -> None:
    json.loads(block.text)


def _toml(block: Block, folder: Path) -> None:
    tomllib.loads(block.text)


def _text(block: Block, folder: Path) -> None:
    # Output and drawings: a command has a language that is run.
    commands = [line for line in block.text.splitlines() if _COMMAND.match(line)]
    assert block.page == "docs/cli.md" or commands == [], f"{block} holds commands"


def _yaml(block: Block, folder: Path) -> None:
    document = yaml.safe_load(block.text)
    assert isinstance(document, dict), f"{block} is no mapping"
    names = set(document)
    if names <= set(Document.model_fields):
        _directory(block, document)
    elif "groups" in names:
        _promtool(block, folder, "rules")
    elif "scrape_configs" in names:
        _promtool(block, folder, "config", "--syntax-only")
    elif "apiVersion" in names:
        assert document["kind"], block
        assert document["metadata"]["name"], block
    else:
        _settings(block, names, folder)


def _directory(block: Block, document: dict[str, Any]) -> None:
    text = block.text.replace("<64 hex digits>", "0" * 64)
    whole = yaml.safe_load(text)
    for kind, entries in _REST.items():
        said = {entry.get("id") or entry.get("name") for entry in whole.get(kind, [])}
        missing = [one for one in entries if (one.get("id") or one.get("name")) not in said]
        whole[kind] = [*whole.get(kind, []), *missing]
    parse_document(yaml.safe_dump(whole, sort_keys=False), str(block))


def _settings(block: Block, names: set[str], folder: Path) -> None:
    found = [one for one in map(settings_class, SERVICES) if one and names <= set(one.model_fields)]
    assert found, f"{block}: no service has the settings {sorted(names)}"
    file = folder / "settings.yaml"
    file.write_text(block.text)
    for settings in found:
        required = ["--model", "m"] if "model" in settings.model_fields else []
        load_settings(settings, ["--config", str(file), *required])


def _promtool(block: Block, folder: Path, *what: str) -> None:
    if shutil.which("promtool") is None:
        return
    file = folder / "prometheus.yaml"
    file.write_text(block.text)
    done = subprocess.run(
        ["promtool", "check", *what, str(file)], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"


def run_sql(block: Block, state: Path) -> None:
    """Asks the ledger of a running stack."""
    with sqlite3.connect(f"file:{_ledger(state)}?mode=ro", uri=True) as database:
        for statement in filter(str.strip, block.text.split(";")):
            database.execute(statement).fetchall()


def _ledger(state: Path) -> Path:
    for file in state.rglob("*"):
        if file.is_file() and file.suffix in {".sqlite", ".db"} and "ledger" in file.name:
            return file
    raise FileNotFoundError(f"no ledger in {state}")
