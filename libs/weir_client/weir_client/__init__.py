"""Typed asyncio client of Tokenweir. Needs grpcio and protobuf alone.

async with AsyncClient("127.0.0.1:8001", api_key=key) as client:
    async with client.generate("smollm2", prompt="Hello", max_new_tokens=32) as answer:
        async for text in answer:
            print(text, end="", flush=True)
    print(answer.usage)
"""

from weir_client.answer import Answer
from weir_client.choice import Choice
from weir_client.client import AsyncClient
from weir_client.embeddings import Embeddings
from weir_client.errors import (
    AuthenticationError,
    CallCancelled,
    ConflictError,
    DeadlineExceeded,
    InvalidRequest,
    LimitExceeded,
    NotBuiltYet,
    NotFound,
    PermissionDenied,
    ServerError,
    Unavailable,
    WeirClientError,
)
from weir_client.job import Job, JobState
from weir_client.jobs import Jobs
from weir_client.prefix import Prefix, Warmth
from weir_client.prefixes import Prefixes
from weir_client.request import GenerateOptions, Message
from weir_client.retry import RetryPolicy
from weir_client.session import Session
from weir_client.sessions import Sessions
from weir_client.stream import AnswerStream

__all__ = [
    "Answer",
    "AnswerStream",
    "AsyncClient",
    "AuthenticationError",
    "CallCancelled",
    "Choice",
    "ConflictError",
    "DeadlineExceeded",
    "Embeddings",
    "GenerateOptions",
    "InvalidRequest",
    "Job",
    "JobState",
    "Jobs",
    "LimitExceeded",
    "Message",
    "NotBuiltYet",
    "NotFound",
    "PermissionDenied",
    "Prefix",
    "Prefixes",
    "RetryPolicy",
    "ServerError",
    "Session",
    "Sessions",
    "Unavailable",
    "Warmth",
    "WeirClientError",
]
