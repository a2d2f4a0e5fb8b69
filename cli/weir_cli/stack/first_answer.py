"""One real answer, streamed to the terminal, as proof that everything works together."""

import time
from collections.abc import Callable

from weir_cli.errors import CommandError
from weir_cli.stack.welcome import Welcome
from weir_client import AsyncClient, RetryPolicy, WeirClientError
from weir_core.tls.trusted_ca import TrustedCa

QUESTION = "Write one sentence about rivers."
_MAX_NEW_TOKENS = 48
_DEADLINE_S = 300.0


async def first_answer(stack: Welcome, write: Callable[[str], None]) -> None:
    """Asks one question over gRPC and writes the answer as it comes, then what it cost.

    A model without a chat template gets the question as a text to continue.

    Raises CommandError when there is no answer.
    """
    began, first_after_s = time.monotonic(), 0.0
    write(f"\n> {QUESTION}\n\n")
    trusted = TrustedCa(stack.ca).channel_credentials() if stack.ca else None
    async with AsyncClient(
        stack.grpc, stack.key, credentials=trusted, retry=RetryPolicy(attempts=10)
    ) as client:
        answer = client.generate(
            stack.model,
            messages=[{"role": "user", "content": QUESTION}] if stack.has_template else None,
            prompt=None if stack.has_template else QUESTION,
            max_new_tokens=_MAX_NEW_TOKENS,
            temperature=0.0,
            timeout_s=_DEADLINE_S,
        )
        try:
            async for text in answer:
                first_after_s = first_after_s or time.monotonic() - began
                write(text)
        except WeirClientError as error:
            raise CommandError(f"the first answer failed: {error}") from None
    usage = answer.usage
    tokens = usage.completion_tokens if usage else 0
    seconds = time.monotonic() - began
    write(
        f"\n\n[{tokens} tokens in {seconds:.1f} s, the first after {first_after_s:.2f} s; "
        f"{answer.finish_reason}; {answer.request_id}]\n"
    )
