"""The hashes of one sequence's full blocks, computed when first asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir_core.prefix_hash import PrefixNamespace, block_hash, change_namespace


@dataclass(frozen=True, slots=True)
class PrefixScopes:
    """Which tokens of a sequence may be found by whom.

    Attributes:
        tenant: namespace of tokens [0, tenant_tokens).
        private: namespace of everything after, found by one session or request.
        tenant_tokens: leading tokens that any request of the tenant may share.
        in_session: the private namespace is a session's, not one request's.
    """

    tenant: PrefixNamespace
    private: PrefixNamespace
    tenant_tokens: int
    in_session: bool = False


class BlockChain:
    """Hash chain over a growing list of tokens.

    The namespace changes at the first block that holds a private token, so a block is in
    the tenant's namespace only when every token of it is.
    """

    __slots__ = ("_hashes", "_scopes", "block_size", "tenant_blocks", "token_ids")

    def __init__(self, token_ids: list[int], block_size: int, scopes: PrefixScopes) -> None:
        self.token_ids = token_ids
        self.block_size = block_size
        self.tenant_blocks = min(scopes.tenant_tokens, len(token_ids)) // block_size
        self._scopes = scopes
        self._hashes: list[bytes] = []

    @property
    def in_session(self) -> bool:
        """Whether private blocks can be found by later turns."""
        return self._scopes.in_session

    def hash_at(self, index: int) -> bytes:
        """Return the hash of block `index`, all of whose tokens are known."""
        while len(self._hashes) <= index:
            self._hashes.append(self._next_hash())
        return self._hashes[index]

    def tokens_at(self, index: int) -> Sequence[int]:
        """Return the tokens of block `index`."""
        start = index * self.block_size
        return self.token_ids[start : start + self.block_size]

    def _next_hash(self) -> bytes:
        index = len(self._hashes)
        parent = self._hashes[-1] if index else self._scopes.tenant.root()
        if index == self.tenant_blocks:
            parent = change_namespace(self._scopes.private.root(), parent)
        return block_hash(parent, self.tokens_at(index))
