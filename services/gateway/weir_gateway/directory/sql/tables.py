"""Tables of the directory. Bodies are JSON in the form of the directory file; times are Unix
milliseconds.

A removed object stays as a row that says so: readers learn of it by its version, and the id of
a key never comes back.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)

metadata = MetaData()


def _objects(name: str, *more: Column[int]) -> Table:
    return Table(
        name,
        metadata,
        # Of users `tenant/user`, as deltas call them.
        Column("id", String, primary_key=True),
        # Empty for what belongs to no tenant.
        Column("tenant_id", String, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("deleted", Boolean, nullable=False),
        Column("body", Text, nullable=False),
        *more,
        Index(f"{name}_by_version", "version"),
    )


tenants = _objects("directory_tenants")
users = _objects("directory_users")
# While a rotation overlaps: when the second of the hashes ends.
api_keys = _objects("directory_api_keys", Column("overlap_end_ms", BigInteger))
plans = _objects("directory_plans")
models = _objects("directory_models")
pools = _objects("directory_pools")
# One row: the limits over everybody.
cluster = _objects("directory_cluster")

# One row. Whoever writes updates it first, so that writers take turns on every database.
head = Table(
    "directory_head",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("turns", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
)

# Apart from the keys: a use is no change of the directory.
key_uses = Table(
    "directory_key_uses",
    metadata,
    Column("id", String, primary_key=True),
    Column("last_used_ms", BigInteger, nullable=False),
)

audit = Table(
    "directory_audit_events",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("actor", String, nullable=False),
    Column("action", String, nullable=False),
    Column("object", String, nullable=False),
    Column("tenant_id", String, nullable=False),
    Column("version", BigInteger, nullable=False),
    Index("directory_audit_events_by_tenant", "tenant_id", "id"),
)
