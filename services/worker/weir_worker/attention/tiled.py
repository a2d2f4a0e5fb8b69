"""Bitwise batch-invariant attention on CPU: torch's SDPA over canonical tiles.

SDPA's sums depend on the shape of the call. Here the shape that decides over a row's sums
depends on its absolute position alone: queries are cut at absolute multiples of 64, keys
reach to the end of the queries' tile (those beyond a row are masked), and the rows, with the
query heads of a KV head folded in, are padded to a multiple of 4. A sliding window begins at
the tile that holds the first key in sight of the queries' tile. Chunks and batch-mates then
change nothing; only pieces with the same extent share a call.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.models.base import ForwardBatch, SequenceSlice

TILE = 64
_ROW_MULTIPLE = 4
_MOST_GATHERED = 4 << 20  # bytes of keys in one call: keeps the gather buffers small


@dataclass(slots=True)
class Tile:
    """Equally shaped query pieces that lie in one tile of their sequences.

    Attributes:
        first: their first row in computed order.
        queries: rows of each.
        keys: those that their tile sees, in the gathered keys; as many as a multiple of 64.
        mask: fp32, 0 or -inf, broadcastable to [pieces, 1, folded rows, keys].
        folded: [pieces, num_kv_heads, folded rows, head_dim], zero where padded.
    """

    first: int
    queries: int
    keys: slice
    mask: torch.Tensor
    folded: torch.Tensor


@dataclass(slots=True)
class TileGroup:
    """Tiles over the same gathered keys.

    Attributes:
        blocks: int64 [pieces * blocks of a piece], padded with a block of the piece's own.
        pieces: sequences in it; more than one only if each has a single tile.
        tiles: its tiles, in ascending order of position.
    """

    blocks: torch.Tensor
    pieces: int
    tiles: list[Tile]


class TiledAttention:
    """Plans tiles, and keeps the mask and the gather buffers from step to step."""

    name = "tiled"

    def __init__(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        self._kv_heads = num_kv_heads
        self._head_dim = head_dim
        self._group = num_heads // num_kv_heads
        self._stairs: dict[int | None, torch.Tensor] = {}
        self._scratch = torch.empty(2, 0)

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> "TiledPlan":
        """Cut the step into groups of tiles; rows are computed in the groups' order."""
        firsts, row = [], 0
        for piece in batch.slices:
            firsts.append(row)
            row += piece.length
        groups: list[list[SequenceSlice]] = []
        order: list[int] = []
        for members in self._grouped(batch.slices, cache.block_size):
            groups.append([batch.slices[member] for member in members])
            for member, piece in zip(members, groups[-1], strict=True):
                order.extend(range(firsts[member], firsts[member] + piece.length))
        rows = StepRows.of(batch.slices, cache.block_size, order)
        return TiledPlan(rows, self, groups, cache.block_size)

    def tile_groups(
        self, groups: Sequence[Sequence[SequenceSlice]], block_size: int, window: int | None
    ) -> list[TileGroup]:
        """The tiles of a plan's groups under a sliding window, or under none."""
        made, first = [], 0
        for pieces in groups:
            made.append(self._tile_group(pieces, first, block_size, window))
            first += sum(piece.length for piece in pieces)
        return made

    def scratch(self, tokens: int) -> torch.Tensor:
        """Room for keys and values of so many tokens, [2, at least their elements]."""
        needed = tokens * self._kv_heads * self._head_dim
        if needed > self._scratch.shape[1]:
            self._scratch = torch.empty(2, needed)
        return self._scratch

    def _grouped(self, slices: Sequence[SequenceSlice], block_size: int) -> Iterator[list[int]]:
        """Indices of the slices that may share a call, at most a bounded number each."""
        alike: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, piece in enumerate(slices):
            if piece.start // TILE == (piece.start + piece.length - 1) // TILE:
                alike[piece.length, _extent(piece)].append(index)
            else:
                yield [index]
        for (_, extent), members in alike.items():
            most = max(1, _MOST_GATHERED // (extent * self._kv_heads * self._head_dim * 4))
            for begin in range(0, len(members), most):
                yield members[begin : begin + most]

    def _tile_group(
        self, pieces: Sequence[SequenceSlice], first: int, block_size: int, window: int | None
    ) -> TileGroup:
        skipped = _first_key(pieces[0].start, window) // block_size
        count = -(-_extent(pieces[0]) // block_size)
        blocks = [b for piece in pieces for b in _padded(piece.block_table, skipped, count)]
        before = skipped * block_size
        if len(pieces) > 1:
            starts = [piece.start for piece in pieces]
            tiles = [self._tile(first, starts, pieces[0].length, before, window)]
        else:
            tiles = list(self._tiles_of(pieces[0], first, before, window))
        return TileGroup(torch.tensor(blocks), len(pieces), tiles)

    def _tiles_of(
        self, piece: SequenceSlice, first: int, before: int, window: int | None
    ) -> Iterator[Tile]:
        position, end = piece.start, piece.start + piece.length
        while position < end:
            stop = min(end, (position // TILE + 1) * TILE)
            row = first + position - piece.start
            yield self._tile(row, [position], stop - position, before, window)
            position = stop

    def _tile(
        self, first: int, positions: Sequence[int], queries: int, before: int, window: int | None
    ) -> Tile:
        begin, extent = _first_key(positions[0], window), (positions[0] // TILE + 1) * TILE
        folded = -(-queries * self._group // _ROW_MULTIPLE) * _ROW_MULTIPLE
        shape = (len(positions), self._kv_heads, folded, self._head_dim)
        stairs = self._stairs_of(extent - begin, window)
        mask = self._mask(stairs, [position % TILE for position in positions], queries, folded)
        keys = slice(begin - before, extent - before)
        return Tile(first, queries, keys, mask, torch.zeros(shape))

    def _mask(
        self, stairs: torch.Tensor, offsets: list[int], queries: int, folded: int
    ) -> torch.Tensor:
        begins = [offset * self._group for offset in offsets]
        if queries == 1:
            return stairs[torch.tensor(begins)][:, None, None]
        return torch.stack([stairs[begin : begin + folded] for begin in begins])[:, None]

    def _stairs_of(self, width: int, window: int | None) -> torch.Tensor:
        stairs = self._stairs.get(window)
        if stairs is None or width > stairs.shape[1]:
            stairs = self._stairs[window] = _stairs(self._group, 2 * width, window)
        return stairs[:, stairs.shape[1] - width :]


class TiledPlan:
    """See `AttentionPlan`. Tiles are cut when a layer first asks for its window."""

    def __init__(
        self,
        rows: StepRows,
        backend: TiledAttention,
        groups: Sequence[Sequence[SequenceSlice]],
        block_size: int,
    ) -> None:
        self.rows = rows
        self._backend = backend
        self._groups = groups
        self._block_size = block_size
        self._tiles: dict[int | None, list[TileGroup]] = {}

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        """See `AttentionPlan.attend`."""
        output = torch.empty(q.shape)
        groups = self.tiles(window)
        scratch = self._backend.scratch(
            max(group.blocks.numel() for group in groups) * self._block_size
        )
        for group in groups:
            k = self._gather(group, keys, scratch[0])
            v = self._gather(group, values, scratch[1])
            for tile in group.tiles:
                _attend(tile, q, k, v, output)
        return output.flatten(1)

    def tiles(self, window: int | None) -> list[TileGroup]:
        """What is computed for a layer of that window."""
        found = self._tiles.get(window)
        if found is None:
            found = self._backend.tile_groups(self._groups, self._block_size, window)
            self._tiles[window] = found
        return found

    def _gather(
        self, group: TileGroup, source: torch.Tensor, scratch: torch.Tensor
    ) -> torch.Tensor:
        """Contiguous [pieces, num_kv_heads, tokens, head_dim] of the group, a view."""
        blocks = source.flatten(1)
        target = scratch[: group.blocks.numel() * blocks.shape[1]].view(-1, blocks.shape[1])
        torch.index_select(blocks, 0, group.blocks, out=target)
        return target.view(group.pieces, -1, *source.shape[2:]).transpose(1, 2)


def _attend(
    tile: Tile, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, output: torch.Tensor
) -> None:
    """Compute the tile's rows of `output`, [rows, num_heads, head_dim]."""
    pieces, kv_heads, _, head_dim = tile.folded.shape
    group = q.shape[1] // kv_heads
    used = tile.queries * group
    rows = slice(tile.first, tile.first + pieces * tile.queries)
    unfolded = (pieces, tile.queries, kv_heads, group, head_dim)
    folded = (pieces, kv_heads, tile.queries, group, head_dim)
    tile.folded[:, :, :used].view(folded).copy_(q[rows].view(unfolded).transpose(1, 2))
    attended = functional.scaled_dot_product_attention(
        tile.folded, k[:, :, tile.keys], v[:, :, tile.keys], attn_mask=tile.mask
    )
    output[rows].view(unfolded).copy_(attended[:, :, :used].view(folded).transpose(1, 2))


def _stairs(group: int, width: int, window: int | None) -> torch.Tensor:
    """The mask of a whole tile of folded rows whose last key is the last column.

    Every mask of a tile or of a part of one is a part of it. A few rows are added so that
    that of a padded part stays inside.
    """
    rows = torch.arange(TILE * group + _ROW_MULTIPLE - 1)[:, None] // group
    keys = torch.arange(width) - (width - TILE)
    seen = keys <= rows
    if window is not None:
        # A padded row may see none, which would make it NaN; nobody reads it.
        seen &= keys > rows - window
    return torch.zeros(seen.shape).masked_fill_(~seen, float("-inf"))


def _first_key(position: int, window: int | None) -> int:
    """The first key that the queries' tile at `position` is computed over, a multiple of 64."""
    first = position // TILE * TILE
    return 0 if window is None else max(0, first - window + 1) // TILE * TILE


def _extent(piece: SequenceSlice) -> int:
    return -(-(piece.start + piece.length) // TILE) * TILE


def _padded(table: Sequence[int], first: int, count: int) -> list[int]:
    blocks = list(table[first:count])
    return blocks + blocks[:1] * (count - first - len(blocks))
