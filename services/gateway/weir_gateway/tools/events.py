"""What the text of an answer turns out to be: content, or the parts of a tool call."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the reader."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegins:
    """A call of a tool begins; `index` counts the calls of one answer from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the JSON text of a call's arguments."""

    index: int
    text: str


ToolEvent = Content | CallBegins | CallArguments


def joined(events: list[ToolEvent]) -> list[ToolEvent]:
    """The events with neighbours of one kind and one call made one."""
    out: list[ToolEvent] = []
    run: list[str] = []
    for event in events:
        if run and not _continues(out[-1], event):
            out[-1] = _with_text(out[-1], "".join(run))
            run = []
        if isinstance(event, CallBegins):
            out.append(event)
            continue
        if not run:
            out.append(event)
        run.append(event.text)
    if run:
        out[-1] = _with_text(out[-1], "".join(run))
    return out


def _continues(last: ToolEvent, event: ToolEvent) -> bool:
    if isinstance(last, CallArguments) and isinstance(event, CallArguments):
        return last.index == event.index
    return isinstance(last, Content) and isinstance(event, Content)


def _with_text(event: ToolEvent, text: str) -> ToolEvent:
    if isinstance(event, CallArguments):
        return CallArguments(event.index, text)
    return Content(text)
