"""Money as people write it, exactly, in nano-units of the deployment's currency."""

import re
from decimal import Decimal

from weir_gateway.directory.units import MAX_AMOUNT

_DECIMAL = re.compile(r"\d{1,32}(?:\.\d{1,32})?", re.ASCII)
_NANOS = 10**9
_TOKENS = 10**6


def parse_money(value: object) -> int:
    """Nano-units of an amount of money such as `25`, `0.5` or `"1000.00"`.

    Raises:
        ValueError: it is no plain decimal, has more than nine decimals, or is too large.
    """
    return _whole(value, _decimal(value) * _NANOS, "nano-units: at most nine decimals")


def parse_price(value: object) -> int:
    """Nano-units per token of a price per million tokens, such as `0.15`.

    Raises:
        ValueError: it is no plain decimal, has more than three decimals, or is too large.
    """
    exact = _decimal(value) * _NANOS / _TOKENS
    return _whole(value, exact, "nano-units per token: at most three decimals per million tokens")


def _decimal(value: object) -> Decimal:
    # A float of the YAML parser stands for the digits that were written: its shortest text.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = format(Decimal(str(value)), "f") if number else value
    if not isinstance(text, str) or _DECIMAL.fullmatch(text) is None:
        raise ValueError(f"{value!r} is not money; write a plain decimal such as 25 or 0.15")
    return Decimal(text)


def _whole(value: object, exact: Decimal, what: str) -> int:
    if exact != exact.to_integral_value():
        raise ValueError(f"{value!r} is not a whole number of {what}")
    if exact > MAX_AMOUNT:
        raise ValueError(f"{value!r} is too large; at most 2^53-1 nano-units can be counted")
    return int(exact)
