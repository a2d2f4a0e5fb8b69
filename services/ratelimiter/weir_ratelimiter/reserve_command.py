"""What a store is asked for one request, and what can be told without asking."""

from weir_ratelimiter.ask import Ask
from weir_ratelimiter.directory.limits import context_window
from weir_ratelimiter.directory.resolution import Resolution
from weir_ratelimiter.domain.admission import ReserveCommand, static_shortfalls
from weir_ratelimiter.domain.demand import Amounts
from weir_ratelimiter.domain.shortfall import Shortfall


def command_of(
    ask: Ask, resolution: Resolution, output: int, amounts: Amounts, default_ttl_ms: int
) -> ReserveCommand:
    """The command that reserves `output` tokens of output, `amounts` in all."""
    return ReserveCommand(
        id=ask.id,
        request_id=ask.request_id,
        subject=ask.subject,
        fingerprint=ask.fingerprint,
        limits=resolution.counted,
        amounts=amounts,
        prompt_tokens=ask.prompt_tokens,
        output_tokens=output,
        max_new_tokens=ask.max_new_tokens,
        ttl_ms=default_ttl_ms if ask.ttl_ms is None else ask.ttl_ms,
        price_version=resolution.version,
        price=resolution.price,
        requests=ask.requests,
    )


def never_fits(ask: Ask, resolution: Resolution, amounts: Amounts) -> list[Shortfall]:
    """Limits that the request can never fit in, whatever their level."""
    limits = resolution.limits
    if ask.model_context_tokens:
        window = context_window(ask.subject.model, ask.model_context_tokens)
        limits = (window, *limits)
    return static_shortfalls(limits, amounts)
