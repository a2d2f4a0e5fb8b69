"""Text in Markdown: what is not code must not be read as markup."""

import re


def escaped(text: str) -> str:
    """Text whose angle brackets, asterisks and underscores stand for themselves."""
    return "".join(
        part
        if part.startswith("`")
        else part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
        for part in re.split(r"(`[^`]*`)", text)
    )


def cell(text: str) -> str:
    """Text as one cell of a table."""
    return " ".join(escaped(text).split()).replace("|", "\\|")
