"""What administrators are told when a change cannot be made."""

from weir_core.database.failures import cause_of
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
