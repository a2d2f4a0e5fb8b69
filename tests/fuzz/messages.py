"""Messages of any type with any values, and bytes that are none."""

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from tests.authorisation.surface import message_class

_MAX_DEPTH = 4
_MAX_ITEMS = 3
_F = FieldDescriptor
_TEXTS = (
    "", "tiny", "small", "org/secret", "user", "system", "acme", "acme/../globex", "\x00", "\n\r",
    "\u202e\U0001f600", "{{ 7 * 7 }}", "<|im_end|>", "' OR 1=1 --", "%s%n", "{", "[]", "[[[[",
    '{"type": "object"}', "(a+)+$", "x" * 5_000, "9" * 400, "http://169.254.169.254/", "NaN",
)  # fmt: skip
_FLOATS = st.sampled_from(
    [0.0, -0.0, 1.0, 0.5, -1.0, 1e-4, 1e38, float("nan"), float("inf"), float("-inf")]
)
_TEXT = st.sampled_from(_TEXTS) | st.text(max_size=20)


def _integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    edges = [low, high, 0, 1, 2, 7, high // 2]
    return st.sampled_from(edges) | st.integers(low, high)


_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), _integers(32, signed=True)),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), _integers(64, signed=True)),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), _integers(32, signed=False)),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), _integers(64, signed=False)),
    **dict.fromkeys((_F.TYPE_DOUBLE, _F.TYPE_FLOAT), _FLOATS),
    _F.TYPE_BOOL: st.booleans(),
    _F.TYPE_STRING: _TEXT.filter(lambda text: text.isascii() or _encodable(text)),
    _F.TYPE_BYTES: st.binary(max_size=40),
}


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, depth: int = 0) -> Message:
    """A message of this type: each field is left out half of the time."""
    message = message_class(descriptor)()
    for field in descriptor.fields:
        if draw(st.booleans()):
            _fill(draw, message, field, depth)
    return message


@st.composite
def wires(draw: st.DrawFn, descriptor: Descriptor) -> bytes:
    """What is sent: mostly a message, else one that is cut or changed, deep nesting, or noise."""
    how = draw(st.sampled_from(["message"] * 6 + ["cut", "changed", "deep", "noise"]))
    if how == "noise":
        return draw(st.binary(max_size=200))
    if how == "deep":
        return _nested(draw(st.integers(1, 15)), draw(st.sampled_from([3, 50, 99, 101, 2_000])))
    data = bytearray(draw(messages(descriptor)).SerializeToString())
    if how == "cut" and data:
        del data[draw(st.integers(0, len(data) - 1)) :]
    elif how == "changed" and data:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def _fill(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _fill_map(draw, message, field)
    elif field.is_repeated:
        count = draw(st.integers(0, _MAX_ITEMS))
        values = getattr(message, field.name)
        for _ in range(count):
            if field.message_type is None:
                values.append(draw(_scalar(field)))
            elif depth < _MAX_DEPTH:
                values.add().CopyFrom(draw(messages(field.message_type, depth + 1)))
    elif field.message_type is None:
        setattr(message, field.name, draw(_scalar(field)))
    elif depth < _MAX_DEPTH:
        getattr(message, field.name).CopyFrom(draw(messages(field.message_type, depth + 1)))


def _fill_map(draw: st.DrawFn, message: Message, field: FieldDescriptor) -> None:
    assert field.message_type is not None
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    entries = getattr(message, field.name)
    for _ in range(draw(st.integers(0, _MAX_ITEMS))):
        name = draw(_scalar(key))
        if value.message_type is None:
            entries[name] = draw(_scalar(value))
        else:
            entries[name].CopyFrom(draw(messages(value.message_type, _MAX_DEPTH)))


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        numbers = [value.number for value in field.enum_type.values]
        return st.sampled_from([*numbers, 99, -1, 2**31 - 1])
    return _SCALARS[field.type]


def _nested(number: int, levels: int) -> bytes:
    """A field that holds a field that holds a field."""
    data = b""
    for _ in range(levels):
        data = bytes([number << 3 | 2]) + _varint(len(data)) + data
    return data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
