"""Hadamard transforms: orthogonal, made of +1 and -1, they spread outliers over a vector."""

from functools import cache

import torch


class Hadamard:
    """x -> x H, where H is orthogonal, block diagonal, and of one normalised block size.

    The block is the largest Hadamard matrix of a known construction whose order divides the
    width: Sylvester's doubling of one by Paley (1933), so 576 = 36 x 16 is one block, and
    1536 = 12 x 128. A width without such a divisor keeps its vectors as they are.

    Attributes:
        order: of the block, the product of the orders of its two factors.
        base: Paley's factor, of +1 and -1, fp64 [b, b].
        power: Sylvester's, likewise; the block is their Kronecker product, normalised.
    """

    def __init__(self, width: int, largest: int | None = None) -> None:
        """Choose the block of a width; at most of order `largest`, which saves time."""
        self._factors = _largest_factors(width, largest or width)
        self.order = self._factors[0] * self._factors[1]
        self.base, self.power = (_matrix(factor) for factor in self._factors)
        self._base = self.base / self.base.shape[0] ** 0.5
        self._power = self.power / self.power.shape[0] ** 0.5

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Transform the last dimension of [..., width]; returns a new tensor in fp64 or fp32."""
        blocks = x.reshape(*x.shape[:-1], -1, *self._factors) @ self._power.to(x.dtype)
        # Transposed and laid out anew, so that this is one product and not one for each block.
        turned = blocks.transpose(-1, -2).contiguous() @ self._base.to(x.dtype)
        result: torch.Tensor = turned.transpose(-1, -2).reshape(x.shape)
        return result

    def inverse(self, x: torch.Tensor) -> torch.Tensor:
        """What was transformed into [..., width]; returns a new tensor of its type."""
        blocks = x.reshape(*x.shape[:-1], -1, self.order) @ self.block().T.to(x.dtype)
        return blocks.reshape(x.shape)

    def block(self) -> torch.Tensor:
        """The block, fp64 [order, order]: a row vector x is mapped to x @ block."""
        return torch.kron(self._base, self._power)


def _largest_factors(width: int, largest: int) -> tuple[int, int]:
    """(order by Paley or 1, power of two) whose product divides the width and is largest."""
    odd = width
    while odd % 2 == 0:
        odd //= 2
    candidates = [
        (base, power)
        for base in (1, *(odd_part * 2**k for odd_part in _odd_divisors(odd) for k in (2, 3, 4)))
        if width % base == 0 and (base == 1 or _paley(base) is not None)
        for power in (2**k for k in range(width.bit_length()))
        if width % (base * power) == 0 and base * power <= largest
    ]
    # Of equal products the one with the smaller base: the Kronecker product is done faster.
    return max(candidates, key=lambda pair: (pair[0] * pair[1], -pair[0]))


def _odd_divisors(odd: int) -> list[int]:
    return [divisor for divisor in range(3, odd + 1, 2) if odd % divisor == 0]


@cache
def _matrix(order: int) -> torch.Tensor:
    """Hadamard matrix of +1 and -1, fp64; the order is a power of two, or one of Paley's."""
    paley = _paley(order) if order & (order - 1) else None
    if paley is not None:
        return paley
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while matrix.shape[0] < order:
        matrix = torch.kron(matrix, torch.tensor([[1, 1], [1, -1]], dtype=torch.float64))
    return matrix


@cache
def _paley(order: int) -> torch.Tensor | None:
    """Paley's matrix of that order for a prime field; None if there is none."""
    if order % 4 == 0 and _is_prime(order - 1):  # a prime of the form 4k + 3
        return torch.eye(order, dtype=torch.float64) + _conference(order - 1, sign=-1)
    half = order // 2
    if order % 4 == 0 and half % 4 == 2 and _is_prime(half - 1):  # of the form 4k + 1
        ones = torch.tensor([[1, 1], [1, -1]], dtype=torch.float64)
        diagonal = torch.tensor([[1, -1], [-1, -1]], dtype=torch.float64)
        unit = torch.eye(half, dtype=torch.float64)
        return torch.kron(_conference(half - 1, sign=1), ones) + torch.kron(unit, diagonal)
    return None


def _conference(prime: int, sign: int) -> torch.Tensor:
    """Zero diagonal, elsewhere +1 or -1, rows orthogonal; from the quadratic residues."""
    squares = {value * value % prime for value in range(1, prime)}
    residue = torch.tensor([0] + [1 if value in squares else -1 for value in range(1, prime)])
    index = torch.arange(prime)
    matrix = torch.zeros(prime + 1, prime + 1, dtype=torch.float64)
    matrix[0, 1:], matrix[1:, 0] = 1, sign
    matrix[1:, 1:] = residue[(index[:, None] - index[None, :]) % prime]
    return matrix


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
