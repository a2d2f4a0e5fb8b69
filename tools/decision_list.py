"""The list of the decisions, from their titles."""

import re
from pathlib import Path

_NUMBER = re.compile(r"^[\d.]+ ")
_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "decisions"


def decision_list() -> str:
    """A row for each record, the newest last."""
    rows = []
    for file in sorted(_FOLDER.glob("0*.md")):
        title = file.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        rows.append(f"| {file.name[:4]} | [{_NUMBER.sub('', title)}]({file.name}) |")
    return "\n".join(["| | |", "|---|---|", *rows])
