"""Runs migrations on the connection that `weir_core.database.schema` hands over."""

from alembic import context

from weir_gateway.state.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="state_alembic_version",
)
with context.begin_transaction():
    context.run_migrations()
