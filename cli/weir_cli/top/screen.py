"""Draws the board."""

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir_cli.top.board import Board, TenantRow, WorkerRow

_BAR = 24
_KEYS = "q quit   s sort   t tenant   a all tenants"
_NEARLY = 0.9
_STATES = {"ready": "green", "draining": "yellow", "suspect": "red", "lost": "red"}


def draw(board: Board, *, title: str, hint: str = _KEYS) -> RenderableType:
    """Everything, for a terminal of any width.

    Args:
        title: which deployment it is.
        hint: last line.
    """
    parts: list[RenderableType] = [_head(board, title)]
    parts += [Text(problem, style="bold red") for problem in board.problems]
    parts += [_pools(board), _workers(board), _tenants(board)]
    parts.append(Text(f"sorted by {board.order}   {hint}", style="dim"))
    return Group(*parts)


def _head(board: Board, title: str) -> RenderableType:
    totals = board.totals()
    line = Text.assemble(
        (f"{totals.tokens_per_s:.1f}", "bold"), " tokens/s   ",
        (f"{totals.requests_per_s:.1f}", "bold"), " requests/s   ",
        (str(totals.in_flight), "bold"), " in flight   ",
        (str(totals.waiting), "bold"), " waiting   TTFT p50 ",
        (_time(totals.ttft_p50), "bold"), "  p95 ",
        (_time(totals.ttft_p95), "bold"), "   refused ",
        (f"{totals.refused_per_s:.1f}/s", "bold red" if totals.refused_per_s else "bold"),
        "   failed ",
        (f"{totals.failed_per_s:.1f}/s", "bold red" if totals.failed_per_s else "bold"),
    )  # fmt: skip
    shown = f", tenant {board.tenant}" if board.tenant else ""
    return Panel(line, title=f"{title}{shown}", subtitle=f"over {board.seconds:.0f} s")


def _pools(board: Board) -> RenderableType:
    table = _table("POOL", "MODEL", "WORKERS", "WAITING", "OLDEST", "WHY THEY WAIT")
    for row in board.pools():
        table.add_row(
            row.pool,
            row.model,
            f"{row.live_workers}/{row.workers}",
            str(row.waiting),
            _time(row.oldest_s) if row.waiting else "-",
            ", ".join(f"{name} {count}" for name, count in row.reasons) or "-",
        )
    return table


def _workers(board: Board) -> RenderableType:
    table = _table("WORKER", "STATE", "RUN", "TOKENS/S", "BATCH", "HITS", "DEVICE", "OTHERS", "KV")
    for row in board.workers():
        table.add_row(
            row.worker_id,
            Text(row.state, style=_STATES.get(row.state, "")),
            f"{row.running}+{row.waiting}" if row.waiting else str(row.running),
            f"{row.tokens_per_s:.1f}",
            f"{row.batch_size:.1f}",
            _share(row.hit_share),
            _share(row.device),
            _share(row.foreign),
            kv_bar(row),
        )
    return table


def kv_bar(row: WorkerRow) -> Text:
    """Blocks that requests hold, that sessions keep and that are cached, of all."""
    total = max(1, row.total)
    ends = [row.held, row.held + row.pinned, row.held + row.pinned + row.cached]
    held, pinned, cached = (round(_BAR * end / total) for end in ends)
    bar = Text()
    bar.append("#" * held, style="red")
    bar.append("=" * (pinned - held), style="yellow")
    bar.append("-" * (cached - pinned), style="blue")
    bar.append("." * (_BAR - cached), style="dim")
    bar.append(f" {100 * (row.held + row.pinned) / total:.0f} %")
    return bar


def _tenants(board: Board) -> RenderableType:
    table = _table(
        "TENANT", "TOKENS/S", "REQ/S", "LIVE", "WAITING", "429/S", "P50", "P95", "USE OF LIMITS"
    )
    for row in board.tenants():
        table.add_row(
            row.tenant_id,
            f"{row.tokens_per_s:.1f}",
            f"{row.requests_per_s:.1f}",
            str(row.in_flight),
            str(row.waiting),
            Text(f"{row.refused_per_s:.1f}", style="red" if row.refused_per_s else ""),
            _time(row.ttft_p50),
            _time(row.ttft_p95),
            _limits(row),
        )
    return table


def _limits(row: TenantRow) -> Text:
    """The fullest first."""
    told = sorted(((_used(one), one) for one in row.limits), key=lambda pair: -pair[0])
    text = Text()
    for used, one in told[:3]:
        style = "red" if used >= _NEARLY else ""
        text.append("  " if text else "")
        text.append(f"{one.limit_id.rpartition('/')[2]} {100 * used:.0f} %", style=style)
    return text or Text("-")


def _used(status: LimitStatus) -> float:
    if not status.HasField("limit") or not status.HasField("remaining") or not status.limit:
        return 0.0
    return max(0.0, 1 - status.remaining / status.limit)


def _table(*heads: str) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1), header_style="bold dim")
    for head in heads:
        right = head.isupper() and head in _NUMBERS
        table.add_column(head, justify="right" if right else "left", no_wrap=True)
    return table


_NUMBERS = frozenset(
    ("WORKERS", "WAITING", "OLDEST", "RUN", "TOKENS/S", "BATCH", "HITS", "DEVICE", "OTHERS",
     "REQ/S", "LIVE", "429/S", "P50", "P95")
)  # fmt: skip


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1_000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
