"""One attempt that a remote engine computes."""

import asyncio
import contextlib
from collections.abc import Callable

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import (
    Delta,
    Failure,
    FinishReason,
    Prefilled,
    Progress,
    Terminal,
    Usage,
)
from weir_worker.remote.news import RemoteNews
from weir_worker.remote.upstream import Piece, Upstream

Tokenise = Callable[[str], list[int]]

_IDS = range(2**31)
# No vocabulary's tokens are longer.
_MOST_CHARACTERS = 1024
# Engines count templates and marks of their own with a prompt that they take as text.
_MORE_PROMPT = 64


class RemoteAttempt:
    """Streams one answer into the news and ends with exactly one terminal.

    What the upstream counts is the usage. Where it does not tell (an abort, an engine without
    usage in streams), the tokens received are, marked as estimated: an upstream may have
    sampled a few more before it saw that the connection was closed. So are they where it tells
    what cannot be: nobody is charged more than the request could take.
    """

    def __init__(
        self, submit: Submit, upstream: Upstream, news: RemoteNews, tokenise: Tokenise, clock: Clock
    ) -> None:
        self.submit = submit
        self.sent = False
        self._upstream = upstream
        self._news = news
        self._tokenise = tokenise
        self._clock = clock
        self._received_us = clock.now_us()
        self._sent_us = 0
        self._first_us = 0
        self._completion = 0
        self._characters = 0
        self._reported: Usage | None = None
        self._finish: FinishReason | None = None
        self._abort: Failure | None = None

    def abort(self, reason: Reason, message: str) -> None:
        """Say why the task of `run` is about to be cancelled."""
        self._abort = Failure(reason, message)

    async def run(self, gate: asyncio.Semaphore) -> None:
        """Compute; ends with the terminal in the news, whatever happens."""
        failure: Failure | None = None
        try:
            async with asyncio.timeout(self._seconds_left()), gate:
                await self._compute()
        except TimeoutError:
            failure = Failure(Reason.DEADLINE_EXCEEDED, "the deadline passed")
        except asyncio.CancelledError:
            failure = self._abort or Failure(Reason.CANCELLED, "aborted")
        except WeirError as error:
            failure = Failure.of(error)
        finally:
            self._news.add_terminal(self._terminal(failure))

    def progress(self) -> Progress:
        """How far it is."""
        submit = self.submit
        prompt = len(submit.prompt_token_ids) if self._first_us else 0
        blocks = self._news.blocks(prompt + self._completion)
        return Progress(submit.request_id, submit.attempt, prompt, 0, self._completion, blocks)

    async def _compute(self) -> None:
        self.sent = True
        self._sent_us = self._clock.now_us()
        async with contextlib.aclosing(self._upstream.complete(self.submit)) as pieces:
            async for piece in pieces:
                self._take(piece)
        if self._finish is None:
            raise WeirError(
                Reason.WORKER_LOST, "the upstream engine ended its stream without a finish reason"
            )

    def _take(self, piece: Piece) -> None:
        if piece.usage is not None and self._can_be(piece.usage):
            self._reported = piece.usage
        self._check_length(piece.text)
        if self._finish is not None:
            return  # the end was told: the usage alone can follow
        self._finish = piece.finish
        token_ids = piece.token_ids
        if token_ids is None:
            token_ids = self._tokenise(piece.text)
        else:
            self._check_ids(token_ids)
        if piece.embedding:
            self._note_first()
            key = self.submit.request_id, self.submit.attempt
            self._news.add_delta(Delta(*key, [], "", embedding=piece.embedding))
        elif token_ids or piece.text:
            self._note_first()
            self._completion += len(token_ids)
            submit = self.submit
            self._news.add_delta(Delta(submit.request_id, submit.attempt, token_ids, piece.text))

    def _can_be(self, usage: Usage) -> bool:
        most_prompt = 2 * len(self.submit.prompt_token_ids) + _MORE_PROMPT
        return (
            0 <= usage.cached_prompt_tokens <= usage.prompt_tokens <= most_prompt
            and 0 <= usage.completion_tokens <= self.submit.max_new_tokens
        )

    def _check_ids(self, token_ids: list[int]) -> None:
        if self._completion + len(token_ids) > self.submit.max_new_tokens:
            raise self._too_much()
        if any(token_id not in _IDS for token_id in token_ids):
            raise WeirError(Reason.ENGINE_FAILED, "the upstream engine sent what is no token id")

    def _check_length(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > self.submit.max_new_tokens * _MOST_CHARACTERS:
            raise self._too_much()

    def _too_much(self) -> WeirError:
        most = self.submit.max_new_tokens
        return WeirError(
            Reason.ENGINE_FAILED,
            f"the upstream engine sent more than the {most} tokens that it was asked for",
        )

    def _note_first(self) -> None:
        if self._first_us:
            return
        self._first_us = self._clock.now_us()
        submit = self.submit
        prompt = len(submit.prompt_token_ids)
        self._news.add_prefilled(
            Prefilled(submit.request_id, submit.attempt, prompt, 0, self._sent_us, self._first_us)
        )

    def _terminal(self, failure: Failure | None) -> Terminal:
        submit = self.submit
        return Terminal(
            submit.request_id,
            submit.attempt,
            submit.tenant,
            self._finish_reason(failure),
            self._usage(),
            failure,
            received_us=self._received_us,
            prefill_start_us=self._sent_us,
            prefill_end_us=self._first_us,
            first_token_us=self._first_us,
            end_us=self._clock.now_us(),
            estimated=self._reported is None and self.sent,
        )

    def _finish_reason(self, failure: Failure | None) -> FinishReason:
        if failure is None:
            return self._finish or FinishReason.ERROR
        aborted = self._abort is not None or failure.reason is Reason.DEADLINE_EXCEEDED
        return FinishReason.ABORT if aborted else FinishReason.ERROR

    def _usage(self) -> Usage:
        if self._reported is not None:
            return self._reported
        prompt = len(self.submit.prompt_token_ids) if self._first_us else 0
        return Usage(prompt, 0, min(self._completion, self.submit.max_new_tokens))

    def _seconds_left(self) -> float | None:
        if not self.submit.deadline_us:
            return None
        return max(0.0, (self.submit.deadline_us - self._clock.monotonic_us()) / 1e6)
