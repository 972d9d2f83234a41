"""One module per command: its options, the call of `wdsctl.core`, and how its report looks in a terminal.

Where the drawing is long it has a module of its own, `NAME_output`. Heavy imports are inside functions, so that
`wdsctl --help` starts at once. Only `wdsctl.cli.app` imports these modules, by name.
"""

from __future__ import annotations
