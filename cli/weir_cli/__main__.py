"""`python -m weir_cli` is `weir`."""

from weir_cli.app import main

main()
