"""Finds the calls of tools in the text of an answer as it comes.

A character at a time, so that how the text was cut into pieces can make no difference. What
might still become a call is held back; what turns out to be none is content, every character
of it, apart from white space around calls.
"""

from collections.abc import Callable, Collection

from weir_gateway.tools.call_format import CallFormat
from weir_gateway.tools.call_reader import CallReader, State
from weir_gateway.tools.events import CallArguments, CallBegins, Content, ToolEvent, joined


class CallParser:
    """Of one answer.

    Args:
        form: how the model writes calls.
        names: of the tools; what names another is content.
        most: calls at most; what follows them is content. None for any number.
    """

    def __init__(self, form: CallFormat, names: Collection[str], *, most: int | None) -> None:
        self._form = form
        self._names = names
        self._most = most
        self._events: list[ToolEvent] = []
        self._held = ""
        self._space = ""
        self._reader = CallReader(names)
        self._step: Callable[[str], None] = self._at_start if form.bare else self._in_content
        self.calls = 0
        """Calls so far."""

    def feed(self, text: str) -> list[ToolEvent]:
        """What is certain after more text."""
        for char in text:
            self._step(char)
        return self._take()

    def finish(self) -> list[ToolEvent]:
        """What was held back, at the end of the answer."""
        if self._step == self._in_call:
            self._held += self._reader.raw
        self._content(self._held)
        if not self.calls:
            self._say(self._space)
        self._held = self._space = ""
        return self._take()

    def _take(self) -> list[ToolEvent]:
        events, self._events = self._events, []
        return joined(events)

    def _at_start(self, char: str) -> None:
        self._held += char
        text = self._held.lstrip()
        if text and text == self._form.opening:
            self._step = self._in_head
        elif text[-1:] == "{" and text[:-1].rstrip() == self._form.begin:
            self._begin_call()
        elif not (self._form.opening.startswith(text) or text.rstrip() == self._form.begin):
            self._fall_back("")

    def _in_content(self, char: str) -> None:
        self._held += char
        opening = self._form.opening
        while self._held and not opening.startswith(self._held):
            self._content(self._held[0])
            self._held = self._held[1:]
        if self._held and self._held == opening:
            self._step = self._in_head

    def _in_head(self, char: str) -> None:
        """Between the opening and the first object."""
        self._held += char
        text = self._held.lstrip().removeprefix(self._form.opening).strip()
        if text[-1:] == "{" and text[:-1].rstrip() == self._form.begin:
            self._begin_call()
        elif text not in ("", self._form.begin):
            self._fall_back(self._form.opening)

    def _begin_call(self) -> None:
        if self._most is not None and self.calls >= self._most:
            self._fall_back(self._form.opening)
            return
        self._held = self._held[:-1]
        self._reader = CallReader(self._names)
        self._step = self._in_call
        self._in_call("{")

    def _in_call(self, char: str) -> None:
        reader = self._reader
        unnamed = reader.name is None
        reader.push(char)
        if reader.name is not None and unnamed:
            self._events.append(CallBegins(self.calls, reader.name))
            self.calls += 1
            self._held = self._space = ""
        if arguments := reader.take():
            self._events.append(CallArguments(self.calls - 1, arguments))
        if reader.state is State.DONE:
            self._step = self._after_call
        elif reader.state is State.BROKEN:
            self._held += reader.raw
            self._fall_back(self._form.opening if unnamed else "")

    def _after_call(self, char: str) -> None:
        self._held += char
        text = self._held.strip()
        form = self._form
        if text and text == form.end:
            self._held = ""
            self._step = self._in_content
        elif form.separator and text[:1] == form.separator and text[1:].strip() == "{":
            self._begin_call()
        elif not (form.end.startswith(text) or (form.separator and text == form.separator)):
            self._fall_back("")

    def _fall_back(self, certain: str) -> None:
        """What was held is no call: `certain` is content, the rest may hold an opening again."""
        held, self._held = self._held, ""
        self._step = self._in_content
        at = held.find(certain) + len(certain) if certain in held else 0
        self._content(held[:at])
        for char in held[at:]:
            self._step(char)

    def _content(self, text: str) -> None:
        for char in text:
            if char.isspace():
                self._space += char
            else:
                self._say(self._space + char)
                self._space = ""

    def _say(self, text: str) -> None:
        if text:
            self._events.append(Content(text))
