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
PREFIX_GRANULARITY = 64
"""Tokens of a piece by which gateways, scheduler and workers name prefixes to each other."""


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


def session_scope(session_id: str) -> str:
    """The scope that one session alone may find; no request has one like it."""
    return f"session:{session_id}"


class PrefixChain:
    """Hashes of the full pieces of a growing list of tokens, computed when first asked for.

    The namespace changes at the first piece that holds a private token, so a piece is in the
    tenant's namespace only when every token of it is.

    Args:
        token_ids: the list itself; it may grow.
        granularity: tokens of a piece.
        tenant: namespace of the first `shared_tokens` tokens.
        private: namespace of everything after; None: also the tenant's.

    Attributes:
        shared: leading pieces in the tenant's namespace.
    """

    __slots__ = ("_hashes", "_private", "_tenant", "granularity", "shared", "token_ids")

    def __init__(
        self,
        token_ids: list[int],
        granularity: int,
        tenant: PrefixNamespace,
        private: PrefixNamespace | None,
        shared_tokens: int,
    ) -> None:
        self.token_ids = token_ids
        self.granularity = granularity
        pieces = min(shared_tokens, len(token_ids)) // granularity
        self.shared = sys.maxsize if private is None else pieces
        self._tenant = tenant
        self._private = private
        self._hashes: list[bytes] = []

    def hash_at(self, index: int) -> bytes:
        """Return the hash of piece `index`, all of whose tokens are known."""
        while len(self._hashes) <= index:
            self._hashes.append(self._next_hash())
        return self._hashes[index]

    def tokens_at(self, index: int) -> Sequence[int]:
        """Return the tokens of piece `index`."""
        start = index * self.granularity
        return self.token_ids[start : start + self.granularity]

    def _next_hash(self) -> bytes:
        index = len(self._hashes)
        parent = self._hashes[-1] if index else self._tenant.root()
        if index == self.shared and self._private is not None:
            parent = change_namespace(self._private.root(), parent)
        return block_hash(parent, self.tokens_at(index))


def _token_bytes(token_ids: Sequence[int]) -> bytes:
    packed = array("I", token_ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
