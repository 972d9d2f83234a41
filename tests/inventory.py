"""Lists what the tests assert, and compares it with another revision.

python -m tests.inventory [--against REV] [--json]

For each test: its rule (its name in words), its cases, the items of its longest loop that asserts, its asserts,
`raises` and `warns`, and its checks. Checks are the assertions that a run evaluates: an assertion counts once for each
case and for each item of the loops around it, also if it is in a helper that the test calls. So a parametrised test
that becomes a loop keeps its number of checks. Cases come from `parametrize`, `params` of fixtures, and `given`. A
length that the source does not state is shown as its expression, or as `?` if the expression has local names.

With `--against REV`, the tests of the working tree are compared with those of that git revision. A line says that a
test is `gone`, `new`, `moved` from another file, `renamed` (it has a similar body), has `fewer` cases or checks, or is
`slow` in more cases. A check of a test that is gone may be in another test: the reader decides.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.suite import Size, Suite, SuiteTest, product, total

ROOT = Path(__file__).resolve().parent.parent
LEAST_SIMILARITY = 0.8


@dataclass(frozen=True, slots=True)
class Change:
    kind: str
    test: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind:8}{self.test}" + (f": {self.detail}" if self.detail else "")


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.inventory", description="Lists what the tests assert.")
    parser.add_argument("--against", metavar="REV", help="compare with the tests of this git revision")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    tests = Suite(read_folder(root)).tests()
    if args.against:
        changes = compare(Suite(read_revision(root, args.against)).tests(), tests)
        rows, lines = [asdict(each) for each in changes], [str(each) for each in changes]
    else:
        rows, lines = [as_json(each) for each in tests], list(format_tests(tests))
    sys.stdout.write(json.dumps(rows, indent=1) + "\n" if args.json else "".join(f"{line}\n" for line in lines))
    return 0


def read_folder(root: Path) -> dict[str, str]:
    """The texts of all test files, by their path from the root."""
    files = sorted((root / "tests").rglob("*.py"))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}


def read_revision(root: Path, revision: str) -> dict[str, str]:
    command = ["git", "-C", str(root), "archive", "--format=tar", revision, "tests"]
    data = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = [(member.name, tar.extractfile(member)) for member in tar if member.name.endswith(".py")]
        return {name: file.read().decode() for name, file in files if file}


def compare(before: Iterable[SuiteTest], after: Iterable[SuiteTest]) -> list[Change]:
    old = {(each.file, each.name): each for each in before}
    new = {(each.file, each.name): each for each in after}
    pairs = [("", old[key], new[key]) for key in old.keys() & new.keys()]
    gone = [old[key] for key in sorted(old.keys() - new.keys())]
    added = [new[key] for key in sorted(new.keys() - old.keys())]
    for kind, least in (("moved", -1.0), ("renamed", LEAST_SIMILARITY)):
        for test in list(gone):
            candidates = [each for each in added if kind == "renamed" or each.name == test.name]
            if similar := _most_similar(test, candidates, least):
                pairs.append((kind, test, similar))
                gone.remove(test)
                added.remove(similar)
    changes = [Change("gone", _id(each), f"{format_size(each.checks)} checks") for each in gone]
    changes += [Change("new", _id(each), f"{format_size(each.checks)} checks") for each in added]
    for kind, test, other in pairs:
        changes += [Change(kind, _id(other), f"from {_id(test)}")] if kind else []
        changes += [Change("slow", _id(other))] if other.slow > test.slow else []
        sizes = {
            # A case may become an item of a loop.
            "cases": (product(test.cases, test.items), product(other.cases, other.items)),
            "checks": (test.checks, other.checks),
        }
        fallen = [
            f"{what} {format_size(was)} -> {format_size(now)}"
            for what, (was, now) in sizes.items()
            if any(was[unknown] > now[unknown] for unknown in was)
        ]
        changes += [Change("fewer", _id(other), ", ".join(fallen))] if fallen else []
    return sorted(changes, key=str)


def _most_similar(test: SuiteTest, candidates: Iterable[SuiteTest], least: float) -> SuiteTest | None:
    """The candidate whose body has the largest ratio of equal tokens, above the least."""
    best = None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(test.tokens())
    for each in candidates:
        matcher.set_seq1(each.tokens())
        if matcher.real_quick_ratio() > least and matcher.quick_ratio() > least and (ratio := matcher.ratio()) > least:
            best, least = each, ratio
    return best


def as_json(test: SuiteTest) -> dict[str, Any]:
    texts = {"cases": format_size(test.cases), "items": format_size(test.items), "checks": format_size(test.checks)}
    sizes = {name: int(text) if text.isdecimal() else text for name, text in texts.items()}
    kinds = {kind: test.kinds[kind] for kind in ("assert", "raises", "warns")}
    return {"file": test.file, "name": test.name, "rule": test.rule, **sizes, **kinds, "slow": test.slow}


def format_tests(tests: Sequence[SuiteTest]) -> Iterator[str]:
    for file, group in groupby(tests, key=lambda each: each.file):
        yield file
        for test in group:
            shown = {name: value for name, value in as_json(test).items() if name not in ("file", "name", "rule")}
            counts = [f"{name} {value}" for name, value in shown.items() if value]
            yield f"  {test.rule}: {', '.join(counts)}"
    cases, checks = (total(sizes)[()] for sizes in ([t.cases for t in tests], [t.checks for t in tests]))
    yield f"{len(tests):,} tests; {cases:,} cases and {checks:,} checks, without unknown numbers"


def format_size(size: Size) -> str:
    terms = [[str(number), *map(_shorten, unknown)] for unknown, number in sorted(size.items())]
    return " + ".join(" x ".join(words) for words in terms) or "0"


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _id(test: SuiteTest) -> str:
    return f"{test.file}::{test.name}"


if __name__ == "__main__":
    sys.exit(main())
