"""What it costs to see: requests a second without traces, with some of them and with all."""
