"""The form in which a file is uploaded, read as it comes."""

from collections.abc import Callable

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from weir_core.errors import InvalidField, Reason, WeirError

_HOW = "send multipart/form-data with the fields purpose and file"
_MOST_FIELDS = 16
_LONGEST_VALUE = 1_024
_LONGEST_NAME = 255


class UploadForm:
    """`multipart/form-data` of one file and small fields, in any order.

    Args:
        content_type: the header, with the boundary.

    Raises:
        WeirError: INVALID_FIELD: it is of another type.
    """

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise InvalidField("Content-Type", content_type, f"multipart/form-data; {_HOW}")
        self.fields: dict[str, str] = {}
        self.file_name: str | None = None
        """As the client called it; None before the file begins."""
        self._content: list[bytes] = []
        self._header = [b"", b""]
        self._disposition = b""
        self._name = ""
        self._value: bytearray | None = None
        self._ended = False
        callbacks: dict[str, Callable[..., None]] = {
            "on_part_begin": self._begin_part,
            "on_header_field": self._header_part(0),
            "on_header_value": self._header_part(1),
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_data,
            "on_part_data": self._data,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }
        try:
            self._parser = MultipartParser(boundary, callbacks)  # type: ignore[arg-type]
        except FormParserError as error:
            raise _bad(str(error)) from None

    def feed(self, data: bytes) -> bytes:
        """Reads on; what of the file's content was in it.

        Raises:
            WeirError: INVALID_FIELD: it is no such form.
        """
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _bad(str(error)) from None
        content, self._content = b"".join(self._content), []
        return content

    def close(self) -> None:
        """Checks that it came to its end with a file. Raises WeirError."""
        if not self._ended:
            raise _bad("it was cut short")
        if self.file_name is None:
            raise InvalidField("file", None, f"a file; {_HOW}")

    def _begin_part(self) -> None:
        self._disposition = b""
        self._header = [b"", b""]

    def _header_part(self, which: int) -> Callable[[bytes, int, int], None]:
        def add(data: bytes, start: int, end: int) -> None:
            self._header[which] += data[start:end]

        return add

    def _end_header(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = value
        self._header = [b"", b""]

    def _begin_data(self) -> None:
        _, options = parse_options_header(self._disposition.decode("latin-1"))
        self._name = options.get(b"name", b"").decode(errors="replace")
        if self._name == "file":
            if self.file_name is not None:
                raise InvalidField("file", "two files", "one file; upload them one by one")
            name = options.get(b"filename", b"").decode(errors="replace")
            self.file_name = _printable(name[:_LONGEST_NAME]) or "upload"
            self._value = None
            return
        if self._name in self.fields:
            raise _bad(f"the field {self._name[:64]!r} is there twice")
        if len(self.fields) >= _MOST_FIELDS:
            raise _bad(f"it has more than {_MOST_FIELDS} fields")
        self._value = bytearray()

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._value is None:
            self._content.append(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > _LONGEST_VALUE:
            raise _bad(f"the field {self._name[:64]!r} has more than {_LONGEST_VALUE} bytes")

    def _end_part(self) -> None:
        if self._value is not None:
            self.fields[self._name] = self._value.decode(errors="replace")

    def _end(self) -> None:
        self._ended = True


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)


def _bad(problem: str) -> WeirError:
    return WeirError(
        Reason.INVALID_FIELD,
        f"the upload cannot be read: {problem[:200]}; {_HOW}",
        field="body",
    )
