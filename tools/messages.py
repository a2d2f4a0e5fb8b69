"""The reference of the gRPC messages of a package, from protos/ and their comments."""

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)
from grpc_tools import protoc
from table_cell import escaped

PROTOS = Path(__file__).resolve().parents[1] / "protos"
PACKAGES = ("gateway", "common", "directory", "ratelimiter", "scheduler", "worker")
# Numbers of fields in descriptor.proto, of which the paths of comments are made.
_MESSAGE, _ENUM, _SERVICE = 4, 5, 6
_FIELD, _NESTED, _NESTED_ENUM, _METHOD, _VALUE = 2, 3, 4, 2, 2

Path_ = tuple[int, ...]


def messages(package: str) -> str:
    """Services, then messages and enums, file by file in the order of the sources."""
    files = [one for one in _descriptors().file if one.package == f"weir.{package}.v1"]
    lines: list[str] = []
    for file in files:
        lines += _File(file).lines()
    return "\n".join(lines).strip()


@cache
def _descriptors() -> FileDescriptorSet:
    sources = sorted(str(path.relative_to(PROTOS)) for path in (PROTOS / "weir").rglob("*.proto"))
    with tempfile.TemporaryDirectory(prefix="descriptors.") as folder:
        made = Path(folder) / "set"
        status = protoc.main(
            [
                "protoc",
                f"--proto_path={PROTOS}",
                f"--proto_path={Path(grpc_tools.__file__).parent / '_proto'}",
                "--include_source_info",
                f"--descriptor_set_out={made}",
                *sources,
            ]
        )
        if status:
            raise RuntimeError("protoc refuses protos/; `make lint` says why")
        return FileDescriptorSet.FromString(made.read_bytes())


class _File:
    """One proto file as Markdown."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._said = {
            tuple(place.path): place.leading_comments or place.trailing_comments
            for place in file.source_code_info.location
        }

    def lines(self) -> Iterator[str]:
        yield from ("", f"## {self._file.name.rpartition('/')[2]}")
        for index, service in enumerate(self._file.service):
            yield from self._service(service, (_SERVICE, index))
        for index, message in enumerate(self._file.message_type):
            yield from self._message(message, message.name, (_MESSAGE, index))
        for index, enum in enumerate(self._file.enum_type):
            yield from self._enum(enum, enum.name, (_ENUM, index))

    def _service(self, service: ServiceDescriptorProto, path: Path_) -> Iterator[str]:
        yield from ("", f"### {service.name}", "", self._text(path), "")
        yield from ("| call | request | answer | what it does |", "|---|---|---|---|")
        for index, method in enumerate(service.method):
            yield self._method(method, (*path, _METHOD, index))

    def _method(self, method: MethodDescriptorProto, path: Path_) -> str:
        asked, told = self._link(method.input_type), self._link(method.output_type)
        asked = f"stream of {asked}" if method.client_streaming else asked
        told = f"stream of {told}" if method.server_streaming else told
        return f"| `{method.name}` | {asked} | {told} | {_cell(self._text(path))} |"

    def _message(self, message: DescriptorProto, name: str, path: Path_) -> Iterator[str]:
        yield from ("", f"### {name}", "", self._text(path), "")
        if message.field:
            yield from ("| field | type | number | what it is |", "|---|---|---|---|")
        for index, field in enumerate(message.field):
            told = _cell(self._text((*path, _FIELD, index)))
            if field.HasField("oneof_index") and not field.proto3_optional:
                one = message.oneof_decl[field.oneof_index].name
                told = f"{told} One of `{one}`.".strip()
            kind = self._kind(field, message)
            yield f"| `{field.name}` | {kind} | {field.number} | {told} |"
        for index, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                yield from self._message(nested, f"{name}.{nested.name}", (*path, _NESTED, index))
        for index, enum in enumerate(message.enum_type):
            yield from self._enum(enum, f"{name}.{enum.name}", (*path, _NESTED_ENUM, index))

    def _enum(self, enum: EnumDescriptorProto, name: str, path: Path_) -> Iterator[str]:
        yield from ("", f"### {name}", "", self._text(path), "")
        yield from ("| value | number | what it means |", "|---|---|---|")
        for index, value in enumerate(enum.value):
            told = _cell(self._text((*path, _VALUE, index)))
            yield f"| `{value.name}` | {value.number} | {told} |"

    def _kind(self, field: FieldDescriptorProto, message: DescriptorProto) -> str:
        for nested in message.nested_type:
            if nested.options.map_entry and field.type_name.endswith(f".{nested.name}"):
                key, value = (self._kind(one, nested) for one in nested.field)
                return f"map of {key} to {value}"
        if field.type_name:
            kind = self._link(field.type_name)
        else:
            kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return f"list of {kind}"
        return f"{kind}, optional" if field.proto3_optional else kind

    def _link(self, full: str) -> str:
        match = re.fullmatch(r"\.weir\.(\w+)\.v1\.([\w.]+)", full)
        if match is None or match[1] not in PACKAGES:
            return f"`{full.removeprefix('.')}`"
        own = f"weir.{match[1]}.v1" == self._file.package
        page = "" if own else f"{match[1]}.md"
        return f"[{match[2]}]({page}#{match[2].replace('.', '').lower()})"

    def _text(self, path: Path_) -> str:
        paragraphs = self._said.get(path, "").strip().split("\n\n")
        return "\n\n".join(escaped(" ".join(one.split())) for one in paragraphs)


def _cell(text: str) -> str:
    # Escaped already.
    return " ".join(text.split()).replace("|", "\\|")
