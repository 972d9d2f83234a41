"""The command line: parses arguments, calls one function of `wdsctl.core`, prints its report.

`main` is the entry point and the boundary where errors become messages and exit codes; `app` builds the Typer
application and imports only the command that runs. Only this room imports Typer and Rich. Nothing imports it but
`wdsctl.__main__` and the console script.
"""

from __future__ import annotations
