"""What of a Markdown page is text and what is code; its links and its headings."""

import re
from collections.abc import Callable, Iterator

_FENCE = re.compile(r"^ *(`{3,}|~{3,})")
_LINK = re.compile(r"(?<!\\)(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(([^()\s]+)\)")
_CODE = re.compile(r"(`+)(?:.(?!\1))*.?\1")
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$")


def lines_of_text(text: str) -> Iterator[tuple[int, str, bool]]:
    """Each line with its index and whether it is code in a fence, or the fence itself."""
    fence = ""
    for index, line in enumerate(text.split("\n")):
        match = _FENCE.match(line)
        if fence:
            yield index, line, True
            if match and match[1].startswith(fence) and line.strip() == match[1]:
                fence = ""
        elif match:
            fence = match[1]
            yield index, line, True
        else:
            yield index, line, False


def links(text: str) -> Iterator[tuple[int, str]]:
    """The targets of a page's links and pictures, with the numbers of their lines."""
    for index, line, code in lines_of_text(text):
        if not code:
            for match in _LINK.finditer(_CODE.sub(lambda span: " " * len(span[0]), line)):
                yield index + 1, match[2]


def with_links(text: str, changed: Callable[[str, str], str]) -> str:
    """The page with each link made anew of its label, in brackets, and its target."""

    def line_with(line: str) -> str:
        # Labels may hold code; links inside of code are none.
        spans = [match.span() for match in _CODE.finditer(line)]

        def one(match: re.Match[str]) -> str:
            inside = any(start < match.start() and match.end() <= end for start, end in spans)
            return match[0] if inside else changed(match[1], match[2])

        return _LINK.sub(one, line)

    return "\n".join(line if code else line_with(line) for _, line, code in lines_of_text(text))


def headings(text: str) -> list[str]:
    """The headings of a page, as they are written."""
    found = (_HEADING.match(line) for _, line, code in lines_of_text(text) if not code)
    return [match[1] for match in found if match]


def anchors(text: str) -> set[str]:
    """The anchors of a page: those that GitHub and the site both make of its headings."""
    seen: dict[str, int] = {}
    made = set()
    for heading in headings(text):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower())
        slug = slug.strip().replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        made.add(f"{slug}-{count}" if count else slug)
    return made
