"""Values put into a directory file."""

import os
from pathlib import Path
from typing import Any

import yaml

from weir_cli.calibration.settings import ChosenSettings, with_settings
from weir_cli.errors import CommandError
from weir_gateway.directory.file import DirectoryFileError, read_document


def put_settings(path: Path, model: str, profile: str, chosen: ChosenSettings) -> None:
    """Changes a file; the old one stays beside it as `.bak`. Comments are not kept.

    Raises:
        CommandError: it cannot be read or written, does not name the model, or would be refused.
    """
    try:
        old = path.read_bytes()
        document = yaml.safe_load(old)
    except (OSError, yaml.YAMLError) as error:
        raise CommandError(f"{path}: {error}") from None
    changed = _changed(path, document, model, profile, chosen)
    draft = path.with_name(f".{path.name}.draft")
    try:
        write_whole(draft, yaml.safe_dump(changed, sort_keys=False).encode())
        read_document(draft)
        write_whole(path.with_name(f"{path.name}.bak"), old)
        os.replace(draft, path)
    except DirectoryFileError as error:
        raise CommandError(f"{path} would be refused with these values: {error}") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error}") from None
    finally:
        draft.unlink(missing_ok=True)


def _changed(
    path: Path, document: Any, model: str, profile: str, chosen: ChosenSettings
) -> dict[str, Any]:
    models: list[Any] = list(document.get("models") or []) if isinstance(document, dict) else []
    names = [one.get("name") for one in models if isinstance(one, dict)]
    if model not in names:
        raise CommandError(f"{path}: models: no {model!r} there (there: {names})")
    at = names.index(model)
    changed: dict[str, Any] = {**document, "models": models}
    models[at] = with_settings(models[at], profile, chosen)
    if chosen.policy:
        changed["pools"] = _pools(document, models[at].get("pool", ""), chosen.policy)
    return changed


def _pools(document: dict[str, Any], wanted: str, policy: str) -> list[Any]:
    """The pools with this policy in the model's; a file without pools gets one."""
    pools = list(document.get("pools") or [])
    name = wanted or (pools[0]["name"] if pools else "default")
    known = [one.get("name") for one in pools]
    if name not in known:
        return [*pools, {"name": name, "scheduler_policy": policy}]
    at = known.index(name)
    return [*pools[:at], {**pools[at], "scheduler_policy": policy}, *pools[at + 1 :]]


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file in one piece: whoever reads it sees the old one or this one."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(content)
    os.replace(draft, path)
