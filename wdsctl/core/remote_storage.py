"""Files in stores that are not mounted, through fsspec: ranges read side by side, exact or not at all.

fsspec is imported here, in `remote_opening` and in `remote_walk` alone, and only when a URL is opened. A filesystem is
made by each process for itself: its event loop runs in a thread, and threads do not survive a fork (fsspec's
documentation, "Async").
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from wdsctl.core.errors import StorageDown, StorageError, WdsctlError
from wdsctl.core.patience import Patience
from wdsctl.core.range_plan import Piece, planned
from wdsctl.core.reads_ahead import ReadsAhead
from wdsctl.core.remote_checks import AGAIN, RemoteChecks
from wdsctl.core.remote_errors import is_transient, meant, translate_remote
from wdsctl.core.remote_opening import opened_root
from wdsctl.core.remote_walk import below
from wdsctl.core.storage import Range
from wdsctl.core.urls import plain, shown

T = TypeVar("T")

SIDE_BY_SIDE = 16  # requests under way at a time
PATIENCE = Patience()


class RemoteFile(NamedTuple):
    path: str  # relative to the root
    facts: Mapping[str, Any]  # what the driver says of it; `size` in bytes


class FsspecStorage:
    """The files below `root`, a URL. Paths are URLs that begin with it.

    `expected`: sizes in bytes that files must have, as `LocalStorage` has it: asked for before the first read, and
    again before one that comes `again_after` seconds later. A file that is another one by then is refused, too.
    `will_need` fetches nothing; when one of the ranges that it was told is read, those after it are fetched with it.
    Pickles by value, and may cross a fork.
    """

    def __init__(
        self,
        root: str,
        expected: Mapping[str, int] | None = None,
        *,
        patience: Patience = PATIENCE,
        again_after: float = AGAIN,
    ) -> None:
        self._root = plain(root)
        self._expected = dict(expected or {})
        self._patience = patience
        self._again_after = again_after
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("_root", "_expected", "_patience", "_again_after")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def files(self) -> list[RemoteFile]:
        """All files below the root, asked for anew. Raises InputError where there is no such bucket or folder."""
        base = self._inner(self._root)

        def find() -> dict[str, dict[str, Any]]:
            filesystem = self._filesystem()
            filesystem.invalidate_cache()
            found = below(filesystem, base)
            filesystem.invalidate_cache()  # the sizes that are asked for later are to be those of then
            return found

        found = self._asked(find, self._root, "list")
        unsized = [name for name, facts in found.items() if facts["size"] is None]
        for name, facts in zip(unsized, self._facts(unsized), strict=True):
            path = f"{self._root}{name[len(base.rstrip('/')) :]}"
            if isinstance(facts, BaseException):
                raise translate_remote(facts, path, "read")
            if facts["size"] is None:
                raise _without_sizes(path)
            found[name] = {**found[name], **facts}
        files = [RemoteFile(name.removeprefix(base).lstrip("/"), facts) for name, facts in found.items()]
        # Some stores keep an empty object in the place of a folder.
        return [file for file in files if not (file.facts["size"] == 0 and (not file.path or file.path.endswith("/")))]

    def size(self, path: str) -> int:
        inner = self._inner(path)
        return int(self._asked(lambda: self._filesystem().info(inner), path, "read")["size"])

    def facts(self, path: str) -> Mapping[str, Any]:
        """What the driver says of one file; `size` in bytes. Raises InputError where there is none."""
        inner = self._inner(path)
        facts: Mapping[str, Any] = self._asked(lambda: self._filesystem().info(inner), path, "list")
        if facts["size"] is None:
            raise _without_sizes(path)
        return facts

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """The sizes of some files, asked for side by side; None of one that is not there."""
        found: list[int | None] = []
        for path, facts in zip(paths, self._facts([self._inner(path) for path in paths]), strict=True):
            if isinstance(facts, BaseException) and not isinstance(facts, FileNotFoundError):
                raise translate_remote(facts, path, "read")
            found.append(None if isinstance(facts, BaseException) else facts["size"])
        return found

    def root_of(self, path: str) -> str:  # noqa: ARG002
        return self._root

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder. A store that does not say raises; some drivers' own answer is no."""
        found = self._facts([self._inner(path)])[0]
        if isinstance(found, BaseException) and not isinstance(found, FileNotFoundError):
            raise translate_remote(found, path, "read")
        return not isinstance(found, BaseException)

    def read(self, path: str, offset: int, size: int) -> bytes:
        wanted = Range(path, offset, size)
        held = self._ahead.take(wanted)
        if held is not None:
            return held
        others = self._ahead.with_it(wanted)
        if others:
            # What is wrong with the others is told to whoever reads them.
            with suppress(WdsctlError):
                first, *rest = self.read_many([wanted, *others])
                self._ahead.hold(others, rest)
                return first
        return self.read_many([wanted])[0]

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        memory[:] = self.read(path, offset, len(memory))

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """Neighbouring ranges are read in one request, long ones in several; so many side by side."""
        self._check({each.path for each in ranges if each.size})
        plan = planned(ranges)
        return plan.cut(self._fetched(plan.pieces))

    def will_need(self, ranges: Iterable[Range]) -> None:
        self._ahead.tell(ranges)

    def close(self) -> None:
        """Forget what was fetched ahead. Connections are fsspec's, which shares them with others in this process."""
        self._forget()

    def _forget(self) -> None:
        self._ahead = ReadsAhead()
        self._checks = RemoteChecks(self._expected, self._again_after)
        self._opened: tuple[Any, str] | None = None
        self._pid = os.getpid()

    def _filesystem(self) -> Any:
        return self._open()[0]

    def _inner(self, path: str) -> str:
        """The path as the filesystem spells it."""
        return f"{self._open()[1].rstrip('/')}{path[len(self._root) :]}"

    def _open(self) -> tuple[Any, str]:
        if self._opened is None or self._pid != os.getpid():
            opened = _answer(partial(opened_root, self._root))
            if isinstance(opened, Exception):
                raise translate_remote(opened, self._root, "open")
            self._opened, self._pid = opened, os.getpid()
        return self._opened

    def _asked(self, ask: Callable[[], T], url: str, doing: str) -> T:
        """What the driver answers; asked again where it may do better. Raises our errors only."""
        self._open()
        for _ in self._patience.tries(shown(url)):
            answer = _answer(ask)
            if not (isinstance(answer, Exception) and is_transient(answer)):
                break
        if isinstance(answer, Exception):
            raise translate_remote(answer, url, doing)
        return answer

    def _check(self, paths: set[str]) -> None:
        """Refuse files that are not what they were."""
        due = self._checks.due(paths)
        for path, facts in zip(due, self._facts([self._inner(path) for path in due]), strict=True):
            if isinstance(facts, BaseException):
                raise translate_remote(facts, path, "read")
            self._checks.take(path, facts)

    def _facts(self, inner: Sequence[str]) -> list[dict[str, Any] | BaseException]:
        """What the store says of these files, or why it does not, asked side by side."""

        def ask(paths: Sequence[str]) -> list[Any]:
            filesystem = self._filesystem()
            if not filesystem.async_impl:
                return [_answer(partial(filesystem.info, path)) for path in paths]
            from fsspec.asyn import sync

            async def all_of() -> list[Any]:
                asked = (filesystem._info(path) for path in paths)  # noqa: SLF001 - so fsspec names its coroutines
                return await asyncio.gather(*asked, return_exceptions=True)

            return list(sync(filesystem.loop, all_of))

        found: list[Any] = []
        for start in range(0, len(inner), SIDE_BY_SIDE):
            found += self._again(inner[start : start + SIDE_BY_SIDE], ask, lambda _path, _facts: False)
        return found

    def _fetched(self, pieces: Sequence[Piece]) -> list[bytes]:
        """The bytes of every piece. Raises StorageError WDS403 where a file ends before a piece does."""

        def ask(some: Sequence[Piece]) -> list[Any]:
            filesystem = self._filesystem()
            bound = {"batch_size": SIDE_BY_SIDE} if filesystem.async_impl else {}
            answers: list[Any] = filesystem.cat_ranges(
                [self._inner(piece.path) for piece in some],
                [piece.start for piece in some],
                [piece.stop for piece in some],
                on_error="return",
                **bound,
            )
            return answers

        answers = self._again(pieces, ask, lambda piece, answer: len(answer) < piece.stop - piece.start)
        for piece, answer in zip(pieces, answers, strict=True):
            if isinstance(answer, BaseException) or len(answer) != piece.stop - piece.start:
                raise self._not_exact(piece, answer)
        return answers

    def _again(
        self, items: Sequence[T], ask: Callable[[Sequence[T]], list[Any]], is_short: Callable[[T, Any], bool]
    ) -> list[Any]:
        """The answers to all items, exceptions among them. Those that may come out better are asked for again."""
        answers: dict[int, Any] = {}
        left = list(range(len(items)))
        for _ in self._patience.tries(shown(self._root)) if items else ():
            some = [items[i] for i in left]
            said = _answer(partial(ask, some))
            answered = [said] * len(some) if isinstance(said, Exception) else map(meant, said)
            answers.update(zip(left, answered, strict=True))
            left = [i for i in left if _is_worth_it(items[i], answers[i], is_short)]
            if not left:
                break
        return [answers[i] for i in range(len(items))]

    def _not_exact(self, piece: Piece, answer: bytes | BaseException) -> WdsctlError:
        """Why a piece did not come as it was asked for. A range beyond the end is an error to some stores."""
        have = len(answer) if isinstance(answer, bytes) else 0
        wanted = piece.stop - piece.start
        if have > wanted:
            return StorageDown(
                f"the store sent {have:,} bytes where {wanted:,} were asked for: it does not serve ranges",
                where=shown(piece.path),
                hint="copy the dataset to a store that does, or to a disk",
            )
        known = isinstance(answer, BaseException) and translate_remote(answer, piece.path, "read")
        if known and (isinstance(known, (PermissionError, StorageDown)) or isinstance(answer, FileNotFoundError)):
            return known
        facts = self._facts([self._inner(piece.path)])[0]
        if isinstance(facts, BaseException):
            return known or translate_remote(facts, piece.path, "read")
        if known and facts["size"] >= piece.stop:
            return known
        return StorageError(
            f"the file ends {piece.stop - facts['size']:,} bytes before the range asked for does"
            if facts["size"] < piece.stop
            else f"the store sent {have:,} bytes where {wanted:,} were asked for, again and again",
            where=f"{shown(piece.path)} (byte {piece.start:,})",
            hint="the shard is shorter than when it was indexed: run `wdsctl validate` on the dataset",
            code="WDS403",
        )


def _without_sizes(path: str) -> StorageError:
    return StorageError(
        "the store does not say how large its files are",
        where=shown(path),
        hint="copy the dataset to a store that does, or to a disk",
    )


def _answer(ask: Callable[[], T]) -> T | Exception:
    """What a driver answers, or what it raises and `meant`. Our own errors pass through."""
    try:
        return ask()
    except WdsctlError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers are others' code: which classes they raise is not to be known
        return meant(error)


def _is_worth_it(item: T, answer: Any, is_short: Callable[[T, Any], bool]) -> bool:
    return is_transient(answer) if isinstance(answer, BaseException) else is_short(item, answer)
