"""What administrators are told when a change cannot be made."""

from collections.abc import Iterator
from contextlib import contextmanager

from weir_core.database.failures import FAILURES, cause_of
from weir_core.errors import Reason, WeirError
from weir_gateway.directory.sql.assembly import EntryInvalid


def invalid(error: EntryInvalid) -> WeirError:
    """For a row that breaks a rule by itself."""
    field = f"{error.record.kind}.{error.field}"
    value = "" if error.value is None else f" is {_shown(error.value)}"
    return WeirError(Reason.INVALID_FIELD, f"{field}{value}: {error.problem}", field=field)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def unavailable(error: BaseException) -> WeirError:
    """For a database that cannot be read or written."""
    return WeirError(
        Reason.DIRECTORY_UNAVAILABLE,
        f"the directory's database cannot be used: {cause_of(error)}; see database_url",
        retry_after_s=5.0,
    )


@contextmanager
def told_unavailable() -> Iterator[None]:
    """Turns failures of the database into the refusal."""
    try:
        yield
    except FAILURES as error:
        raise unavailable(error) from error
