"""Requests whose end nobody will report: reserved and settled in one go."""

from weir_ratelimiter.ask import Ask
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.limiter import Admission, Limiter

_OUTCOME_OK = 1
"""`weir.common.v1.OUTCOME_OK`."""


class Charger:
    """Charges an account for requests that are over as soon as they are admitted."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    async def charge(self, ask: Ask) -> Admission:
        """Debit what `ask` takes from every limit, for good, or refuse it.

        What is admitted has one row in the ledger. If the settlement fails, the reservation
        lapses and everything is given back.

        Raises:
            LimitExceeded, InvalidField, WeirError: as `Limiter.reserve`; LIMITER_UNAVAILABLE
                also if the charge could not be written down.
        """
        admission = await self._limiter.reserve(ask)
        # Whoever counted these tokens was no tokenizer of ours.
        report = Report(Usage(ask.prompt_tokens), Quality.ESTIMATED, _OUTCOME_OK)
        await self._limiter.settle(admission.record, report)
        return admission
