"""Least squares over a stream of samples, with coefficients that are never negative."""

from collections.abc import Sequence

_KEEP = 0.98
_RIDGE = 1e-3
_OUTLIER = 3.0
_IN_A_ROW = 3
_TRUSTED = 16


class LinearFit:
    """Fits y = sum(c_i * x_i), c_i >= 0, to recent samples (exponential forgetting).

    Normal equations, solved when the coefficients are asked for: those that come out negative are
    set to 0 and the rest is solved again (an active set of at most `size` rounds). A ridge holds
    them at their last values, so that what recent samples do not tell apart is not forgotten. A
    sample far above its prediction is left out, as a step that the machine interrupted teaches
    nothing; the third in a row is believed.

    Args:
        size: features; each should be about 1 where it is large.

    Attributes:
        samples: taken so far.
    """

    def __init__(self, size: int) -> None:
        self.samples = 0
        self._size = size
        self._products = [[0.0] * size for _ in range(size)]
        self._targets = [0.0] * size
        self._last = [0.0] * size
        self._stale = False
        self._odd = 0

    def observe(self, features: Sequence[float], value: float) -> None:
        """Take a sample; a value below 0 counts as 0."""
        value = max(0.0, value)
        odd = self.samples >= _TRUSTED and value > _OUTLIER * product(self._last, features)
        self._odd = self._odd + 1 if odd else 0
        if 0 < self._odd < _IN_A_ROW:
            return
        for row, left in enumerate(features):
            products = self._products[row]
            for column, right in enumerate(features):
                products[column] = _KEEP * products[column] + left * right
            self._targets[row] = _KEEP * self._targets[row] + left * value
        self.samples += 1
        self._stale = True
        if self.samples % _TRUSTED == 0:
            self.coefficients()

    def coefficients(self) -> list[float]:
        """Return the coefficients; 0 where nothing is known."""
        if self._stale:
            self._last = self._solve()
            self._stale = False
        return self._last

    def _solve(self) -> list[float]:
        active = list(range(self._size))
        while active:
            solution = self._solve_for(active)
            negative = [index for index, value in zip(active, solution, strict=True) if value < 0]
            if not negative:
                break
            active = [index for index in active if index not in negative]
        else:
            solution = []
        result = [0.0] * self._size
        for index, value in zip(active, solution, strict=True):
            result[index] = value
        return result

    def _solve_for(self, active: Sequence[int]) -> list[float]:
        """Gaussian elimination; the ridge makes the matrix positive definite."""
        rows = [
            [self._products[i][j] + (_RIDGE if i == j else 0.0) for j in active]
            + [self._targets[i] + _RIDGE * self._last[i]]
            for i in active
        ]
        size = len(rows)
        for pivot in range(size):
            for row in range(pivot + 1, size):
                factor = rows[row][pivot] / rows[pivot][pivot]
                for column in range(pivot, size + 1):
                    rows[row][column] -= factor * rows[pivot][column]
        solution = [0.0] * size
        for pivot in reversed(range(size)):
            known = sum(rows[pivot][k] * solution[k] for k in range(pivot + 1, size))
            solution[pivot] = (rows[pivot][size] - known) / rows[pivot][pivot]
        return solution


def product(coefficients: Sequence[float], features: Sequence[float]) -> float:
    """The value that coefficients give features."""
    return sum([c * x for c, x in zip(coefficients, features, strict=True)])
