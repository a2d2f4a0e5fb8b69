"""Bounds on `multipleOf`, whose automata grow with the number itself."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

# An automaton counts remainders: one state for each, and for several that hold at once one
# for each remainder of their least common multiple. One of 500,000 takes 14 s, one of 10,000
# 30 ms.
LARGEST_COMMON_MULTIPLE = 10_000
LARGEST_SUM = 50_000


def multiples_problem(schema: Any) -> str:
    """What is wrong with the `multipleOf` of a schema, or nothing.

    Numbers count by their significant digits: 0.25 and 2500 are 25. References and `allOf`
    can bring any of them together, so all of a schema's have one bound.
    """
    common, total = 1, 0
    for number in _numbers(schema):
        digits = _digits(number)
        common, total = math.lcm(common, digits), total + digits
        if common > LARGEST_COMMON_MULTIPLE:
            return (
                f"multipleOf {number}: the least common multiple of all multipleOf of a schema, "
                f"without decimal points and zeros at the end, is at most {LARGEST_COMMON_MULTIPLE}"
            )
        if total > LARGEST_SUM:
            return f"the sum of all multipleOf of a schema is at most {LARGEST_SUM}"
    return ""


def _digits(number: float) -> int:
    _, digits, _ = Decimal(str(number)).normalize().as_tuple()
    return int("".join(map(str, digits)))


def _numbers(schema: Any) -> Iterator[int | float]:
    """Every `multipleOf` that could be one, wherever it stands; others are the compiler's."""
    parts = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts.extend(part)
        elif isinstance(part, dict):
            number = part.get("multipleOf")
            if (
                isinstance(number, int | float)
                and not isinstance(number, bool)
                and 0 < number < math.inf
            ):
                yield number
            parts.extend(part.values())
