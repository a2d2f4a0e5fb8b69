"""Attributes as parts of an encoded OTLP message; most have been in one before, and are kept."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from weir_core.telemetry.span_redaction import clean_attributes

_PARTS = 8_192
_LONGEST_KEPT = 256
_DOUBLE = struct.Struct("<d")


class AttributeParts:
    """Hides and encodes attributes of one type of message, each value once as far as it is kept.

    Args:
        of: the type of message; its attributes are a field of it.
    """

    def __init__(self, of: type[Span | Span.Event | Span.Link]) -> None:
        self._of = of
        # Typed: 1, 1.0 and True are one key to a dictionary, but three values here.
        self._kept = lru_cache(maxsize=_PARTS, typed=True)(self._new)
        self._texts = lru_cache(maxsize=_PARTS)(self._new)
        self._double = lru_cache(maxsize=_PARTS)(self._new_double)

    def encoded(self, attributes: Mapping[str, Any]) -> bytes:
        """Their part of a message."""
        return b"".join([self._part(name, value) for name, value in attributes.items()])

    def _part(self, name: str, value: Any) -> bytes:
        kind = type(value)
        if kind is str:
            return (self._kept if len(value) <= _LONGEST_KEPT else self._new)(name, value)
        if kind is int or kind is bool:
            return self._kept(name, value)
        if kind is float:
            return self._double(name) + _DOUBLE.pack(value)
        if kind is list and all(type(item) is str for item in value):
            return self._texts(name, tuple(value))
        return self._new(name, value)

    def _new(self, name: str, value: Any) -> bytes:
        attributes = key_values(clean_attributes({name: value}) or {})
        return self._of(attributes=attributes).SerializeToString()

    def _new_double(self, name: str) -> bytes:
        # The eight bytes at its end are the value.
        return self._new(name, 1.0)[: -_DOUBLE.size]


def key_values(attributes: Mapping[str, Any]) -> Iterator[KeyValue]:
    """Attributes as they are. Those that OTLP has no room for are left out."""
    for name, value in attributes.items():
        # Half of a character, or an integer of more than 64 bits.
        with suppress(ValueError):
            yield KeyValue(key=name, value=_value(value))


def _value(value: Any) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, Sequence):
        return AnyValue(array_value=ArrayValue(values=map(_value, value)))
    return AnyValue()
