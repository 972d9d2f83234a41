"""The same order and examples in every run: `pytest --seed N` (`make test SEED=N`) sets another seed than 1."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=1, metavar="N", help="order of the tests and examples (default 1)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before pytest-randomly and hypothesis read their seeds."""
    config.option.randomly_seed = config.option.hypothesis_seed = config.getoption("seed")
