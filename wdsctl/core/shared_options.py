"""Options that several commands have. The command line also uses them for commands without a Python function."""

from __future__ import annotations

from typing import Annotated

from wdsctl.core.options import Option

ROOT = Option(
    is_argument=True,
    is_path=True,
    metavar="ROOT",
    help="The dataset: a folder with shards at any depth, a .tar or .jsonl file, or a URL of one of these.",
)
CATALOG = Option(metavar="DIR", is_path=True, help="Folder of the catalog. [default: ROOT/.wdsctl]")

Root = Annotated[str, ROOT]
Catalog = Annotated[str | None, CATALOG]
