"""One module per command: its options, the call of `wdsctl.core`, and how its report looks in a terminal.

The reports of `inspect` are long, and `inspect_output` renders two of them. Heavy imports are inside functions, so that
`wdsctl --help` starts at once. Only `wdsctl.cli.app` imports the commands, by name.
"""

from __future__ import annotations
