"""A load's report as files."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir_cli.errors import CommandError
from weir_cli.load.exchange import Exchange
from weir_cli.load.open_loop import Offered
from weir_cli.load.plots import draw_load
from weir_sim.report.canvas import PlotsUnavailable

_PAGE = """<!doctype html>
<meta charset="utf-8"><meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem;
padding: 0 1rem }} img {{ max-width: 100% }}
pre {{ font-size: 12px; white-space: pre-wrap }}</style>
<h1>{title}</h1>
<pre>{text}</pre>
{plots}
"""


@dataclass(frozen=True, slots=True)
class SavedReport:
    """What is written.

    Attributes:
        title: of the page.
        text: as the terminal shows it.
        numbers: the JSON.
    """

    title: str
    text: str
    numbers: Mapping[str, Any]

    def write(self, folder: Path, offered: Offered, suffix: str) -> str:
        """Writes numbers.json, requests.jsonl, report.html and plots; what is missing, or "".

        Raises:
            CommandError: the folder cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "numbers.json").write_text(json.dumps(self.numbers, indent=2) + "\n")
            lines = [json.dumps(_line(one, offered.begin_s)) for one in offered.exchanges]
            (folder / "requests.jsonl").write_text("".join(f"{line}\n" for line in lines))
            files, missing = _plots(offered, folder, suffix)
            (folder / "report.html").write_text(page(self.title, self.text, files))
        except OSError as error:
            raise CommandError(f"--save {folder} cannot be written: {error}") from None
        return missing


def page(title: str, text: str, plots: Sequence[Path]) -> str:
    """A page of its own: the text, and the plots beside it."""
    shown = "\n".join(f'<img src="{html.escape(one.name)}" alt="{one.stem}">' for one in plots)
    return _PAGE.format(title=html.escape(title), text=html.escape(text), plots=shown)


def _plots(offered: Offered, folder: Path, suffix: str) -> tuple[list[Path], str]:
    try:
        return draw_load(offered, folder, suffix), ""
    except PlotsUnavailable as error:
        return [], str(error)


def _line(exchange: Exchange, begin_s: float) -> dict[str, Any]:
    """One request; times in seconds from the begin of the load."""
    request = exchange.request
    return {
        "index": request.index,
        "tenant": request.tenant,
        "intended_s": round(exchange.intended_s - begin_s, 6),
        "sent_s": round(exchange.sent_s - begin_s, 6) if exchange.sent_s else None,
        "ttft_s": exchange.ttft_s,
        "tpot_s": exchange.tpot_s,
        "e2e_s": exchange.e2e_s,
        "prompt_tokens": exchange.prompt_tokens or request.prompt_tokens,
        "output_tokens": exchange.output_tokens,
        "failure": exchange.failure and exchange.failure.kind,
    }
