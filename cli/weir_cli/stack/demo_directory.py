"""The directory file of a local stack: one plan, one tenant, one user, one key, and its models."""

from collections.abc import Sequence
from typing import Any

import yaml

from weir_cli.stack.served_model import ServedModel
from weir_gateway.keys import NewKey

TENANT = "demo"
_HEADER = """\
# Written by `weir up` at each start. To serve your own, copy it, change it, and start with
# `weir up --directory FILE`. The key itself is stored nowhere, only its SHA-256.
"""


def demo_directory(models: Sequence[ServedModel], key: NewKey) -> str:
    """The file as text."""
    document: dict[str, Any] = {
        "plans": [
            {
                "id": TENANT,
                "limits": [
                    {"resource": "concurrency", "limit": 64},
                    {"resource": "requests", "rate": "100/s", "burst": 200},
                    {"resource": "tokens", "rate": "1M/min"},
                ],
            }
        ],
        "models": [_entry(model) for model in models],
        "tenants": [
            {
                "id": TENANT,
                "plan": TENANT,
                "users": [{"id": TENANT}],
                "keys": [{"id": key.id, "user": TENANT, "hash": f"sha256:{key.hash.hex()}"}],
            }
        ],
    }
    return _HEADER + yaml.safe_dump(document, sort_keys=False)


def _entry(model: ServedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "aliases": list(model.aliases),
        "versions": [{"version": "1", "folder": str(model.folder)}],
        "max_context": model.max_context,
        **({"parameters": dict(model.parameters)} if model.parameters else {}),
    }
