"""Rewrites the asserts of test files in several processes, before they are collected: one needs half a minute for all.

pytest keeps the rewritten files, so only a new clone waits for this. `tests/conftest.py` imports the hook.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import source_hash
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir

_FEW_FILES = 20  # which pytest itself rewrites as fast
_HEADER = slice(8, 16)  # where a rewritten file has the hash of its source


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    count = min(session.config.getoption("processes"), os.cpu_count() or 1)
    if count < 2 or sys.dont_write_bytecode:
        return
    files = [path for path in _test_files(session.config.args) if not _is_current(path)]
    if len(files) >= _FEW_FILES:
        children = [_fork(files[number::count], session.config) for number in range(count)]
        for child in children:
            os.waitpid(child, 0)


def _test_files(arguments: Sequence[str]) -> Iterator[Path]:
    for argument in arguments:
        yield from Path(argument.partition("::")[0]).rglob("test_*.py")


def _rewritten_path(path: Path) -> Path:
    return get_cache_dir(path) / f"{path.stem}{PYC_TAIL}"


def _is_current(path: Path) -> bool:
    try:
        with open(_rewritten_path(path), "rb") as file:
            return file.read(_HEADER.stop)[_HEADER] == source_hash(path.read_bytes())
    except FileNotFoundError:
        return False


def _fork(files: Sequence[Path], config: pytest.Config) -> int:
    """The id of a process that rewrites the files. What it leaves out, pytest rewrites, and reports its errors."""
    child = os.fork()
    if child:
        return child
    try:
        for path in files:
            with suppress(SyntaxError):
                digest, code = _rewrite_test(path, config)
                rewritten = _rewritten_path(path)
                rewritten.parent.mkdir(parents=True, exist_ok=True)
                _write_pyc(config.stash[assertstate_key], code, digest, rewritten)
    finally:
        os._exit(0)
