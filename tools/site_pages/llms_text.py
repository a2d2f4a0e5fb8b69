"""llms.txt: the site's pages in one list, for programs that read instead of people."""

import re
import textwrap

from tools.site_pages.markdown_text import lines_of_text
from tools.site_pages.pages import ROOT, navigation, page_files, place

_ABOUT = (
    "Tokenweir serves large language models to many tenants, and meters and regulates their "
    "tokens: keys, limits, fair queues, a shared KV cache and a ledger, over OpenAI-compatible "
    "HTTP and gRPC."
)
_SHORTEST, _LONGEST = 12, 200


def llms_text() -> str:
    """The list, in the sections of the navigation."""
    file_of = {place(file): file for file in page_files()}
    lines = ["# Tokenweir", "", f"> {_ABOUT}"]
    section: tuple[str, ...] | None = None
    for above, title, page in navigation():
        if above != section:
            section = above
            lines += ["", f"## {' / '.join(above) or 'Start'}", ""]
        lines.append(f"- [{title}]({_url(page)}): {_first_sentence(file_of[page])}")
    return "\n".join([*lines, ""])


def _url(page: str) -> str:
    path = re.sub(r"(?:^|(?<=/))(?:index|README)\.md$", "", page)
    return f"/{path.removesuffix('.md')}/" if path.endswith(".md") else f"/{path}"


def _first_sentence(file: str) -> str:
    text = (ROOT / file).read_text(encoding="utf-8")
    prose = "\n".join("" if code else line for _, line, code in lines_of_text(text))
    for paragraph in prose.split("\n\n")[1:]:
        # Neither markup nor the line that leads to other languages.
        if len(paragraph) > _SHORTEST and not re.match(r"[#|<!\-]|.* \| ", paragraph.lstrip()):
            said = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            return textwrap.shorten(
                re.split(r"(?<=\.)\s|(?<=。)", said)[0], _LONGEST, placeholder=" ..."
            )
    raise ValueError(f"{file} says nothing before its first table or list")
