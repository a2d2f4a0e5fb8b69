"""Which version of a model serves a request that names none."""

import hashlib
import math
import secrets

from weir.directory.v1.directory_pb2 import (
    VERSION_STICKINESS_NONE,
    VERSION_STICKINESS_SESSION,
    Model,
    ModelVersion,
)


def sticky_key(model: Model, tenant_id: str, session_id: str) -> str:
    """Whoever has the same key gets the same version.

    Args:
        model: says who shares a key.
        tenant_id: of the caller.
        session_id: session or conversation within the tenant; empty for none.
    """
    stickiness = model.version_stickiness
    if stickiness == VERSION_STICKINESS_NONE:
        return secrets.token_hex(16)
    if stickiness == VERSION_STICKINESS_SESSION:
        return f"{tenant_id}\0{session_id or secrets.token_hex(16)}"
    return tenant_id


def drawn_versions(model: Model, key: str) -> list[ModelVersion]:
    """Versions of weight above 0 in the order in which a key gets them; the first one serves.

    Weighted rendezvous hashing (Schindelhauer and Schomaker 2005, as -w / ln u): of many keys
    each version gets its share, and a changed weight moves keys only to or from that version,
    no more than its share has changed.
    """
    weighted = [version for version in model.versions if version.weight > 0]
    if not weighted:
        return list(model.versions[:1])
    return sorted(weighted, key=lambda version: -_score(model.name, version, key))


def _score(model: str, version: ModelVersion, key: str) -> float:
    digest = hashlib.sha256(f"{model}\0{version.version}\0{key}".encode()).digest()
    # In (0, 1): 53 bits and a half, so that neither end is reached.
    uniform = ((int.from_bytes(digest[:8], "big") >> 11) + 0.5) / 2.0**53
    return -version.weight / math.log(uniform)
