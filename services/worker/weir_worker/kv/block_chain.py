"""The hashes of one sequence's full blocks, and the names of its prefixes."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir_core.prefix_hash import PREFIX_GRANULARITY, PrefixChain, PrefixNamespace


@dataclass(frozen=True, slots=True)
class PrefixScopes:
    """Which tokens of a sequence may be found by whom.

    Attributes:
        tenant: namespace of tokens [0, tenant_tokens).
        private: namespace of everything after, found by one session or request; None: all
            tokens are the tenant's.
        tenant_tokens: leading tokens that any request of the tenant may share.
        session: id of the session; empty for a request of none.
    """

    tenant: PrefixNamespace
    private: PrefixNamespace | None
    tenant_tokens: int
    session: str = ""


class BlockChain:
    """Two hash chains over a growing list of tokens.

    One in blocks, by which this cache finds them; one in granules of a fixed size, by which the
    scheduler knows what the cache holds. A granule is named with the block that ends it.

    Attributes:
        tenant_blocks: leading blocks in the tenant's namespace.
        session: see `PrefixScopes`.
    """

    __slots__ = ("_blocks", "_granules", "session", "tenant_blocks")

    def __init__(
        self,
        token_ids: list[int],
        block_size: int,
        scopes: PrefixScopes,
        granularity: int = PREFIX_GRANULARITY,
    ) -> None:
        of_scopes = scopes.tenant, scopes.private, scopes.tenant_tokens
        self._blocks = PrefixChain(token_ids, block_size, *of_scopes)
        self._granules = PrefixChain(token_ids, granularity, *of_scopes)
        self.tenant_blocks = self._blocks.shared
        self.session = scopes.session

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        return self._blocks.granularity

    @property
    def token_ids(self) -> list[int]:
        """The sequence's own list."""
        return self._blocks.token_ids

    def hash_at(self, index: int) -> bytes:
        """Return the hash of block `index`, all of whose tokens are known."""
        return self._blocks.hash_at(index)

    def tokens_at(self, index: int) -> Sequence[int]:
        """Return the tokens of block `index`."""
        return self._blocks.tokens_at(index)

    def granules_of(self, index: int) -> tuple[bytes, ...]:
        """Return the names of the granules that end in block `index` and others may look for."""
        granularity = self._granules.granularity
        first = index * self.block_size // granularity
        end = (index + 1) * self.block_size // granularity
        if not self.session:
            end = min(end, self._granules.shared)
        return tuple(self._granules.hash_at(granule) for granule in range(first, end))
