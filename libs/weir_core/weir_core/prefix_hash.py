"""Chained SHA-256 over token blocks: the keys of every prefix cache and prefix index.

Hash of block i = SHA-256(hash of block i-1, tokens of block i), and the chain starts at the
root of a namespace. Equal hashes therefore mean: same tenant, model, tokenizer and scope, and
the same tokens from the first one on. A cryptographic hash is needed, since a collision would
show one request's content to another (CVE-2025-25183 of vLLM).
"""

import hashlib
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

HASH_BYTES = 32
TENANT_SCOPE = "tenant"


@dataclass(frozen=True, slots=True)
class PrefixNamespace:
    """Who may share a chain of blocks.

    Attributes:
        tenant: no chain is ever shared by two tenants.
        model: name and version of the weights.
        tokenizer_fingerprint: SHA-256 of tokenizer.json; may be empty when unknown.
        scope: `TENANT_SCOPE`, or the id of the one session or request that may find it.
    """

    tenant: str
    model: str
    tokenizer_fingerprint: bytes = b""
    scope: str = TENANT_SCOPE

    def root(self) -> bytes:
        """Return the 32 bytes that stand before the first block of a chain."""
        digest = hashlib.sha256(b"weir-prefix-v1")
        fields = (self.tenant.encode(), self.model.encode(), self.tokenizer_fingerprint)
        for field in (*fields, self.scope.encode()):
            # Length first: ("ab", "c") and ("a", "bc") must differ.
            digest.update(len(field).to_bytes(8, "little"))
            digest.update(field)
        return digest.digest()


def block_hash(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """Return the hash of a block of tokens (each 0 to 2^32-1) that follows `parent`."""
    return hashlib.sha256(parent + _token_bytes(token_ids)).digest()


def change_namespace(root: bytes, parent: bytes) -> bytes:
    """Return the parent for blocks after `parent` that belong to another namespace's root."""
    return hashlib.sha256(b"weir-scope-v1" + root + parent).digest()


def prefix_hashes(root: bytes, token_ids: Sequence[int], granularity: int) -> list[bytes]:
    """Hash every full block of `granularity` tokens; a partial tail has no hash."""
    hashes = []
    parent = root
    for end in range(granularity, len(token_ids) + 1, granularity):
        parent = block_hash(parent, token_ids[end - granularity : end])
        hashes.append(parent)
    return hashes


def _token_bytes(token_ids: Sequence[int]) -> bytes:
    packed = array("I", token_ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
