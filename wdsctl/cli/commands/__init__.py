"""One module per command: its options, the call of `wdsctl.core`, and how its report looks in a terminal.

`inspect` prints the summary of a dataset, with the tables of splits, columns and media from `split` and `index`;
`inspect_output` prints single samples and `--stats`. Heavy imports are inside functions, so that `wdsctl --help` starts
at once. Only `wdsctl.cli.app` imports the commands, by name.
"""

from __future__ import annotations
