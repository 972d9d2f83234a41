from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Stream
from wdsctl.cli.output import drawn

if TYPE_CHECKING:
    from rich.console import RenderableType

Show = Callable[["Iterable[RenderableType]"], list[str]]


@pytest.fixture
def piped() -> Show:
    """The lines that a file gets."""
    return lambda pieces: drawn(pieces, Stream(), is_colored=False).splitlines()


@pytest.fixture
def on_a_terminal() -> Show:
    """The lines that a terminal of 80 columns gets."""
    return lambda pieces: drawn(pieces, Stream(is_terminal=True), is_colored=False).splitlines()
