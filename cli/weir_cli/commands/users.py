"""`weir users`: the users of tenants of a stack whose directory is a database."""

from weir_cli.commands.objects import objects_app
from weir_cli.directory_nouns import USER

app = objects_app(USER, "List, change and remove users of tenants.")
