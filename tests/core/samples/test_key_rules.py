from __future__ import annotations

from collections.abc import Iterable

import pytest

from wdsctl.core.samples.key_rules import KeyRuleChoice, SampleLayout, choose_key_rule, describe_rule_outcome
from wdsctl.core.samples.naming import split_name, split_name_by_rule


def layouts(names: Iterable[str]) -> list[SampleLayout]:
    """The layouts of samples whose keys end at the first dot, as a folder or a tar gives them."""
    parts: dict[str, list[str]] = {}
    for name in sorted(names):
        split = split_name(name)
        if split is not None:
            parts.setdefault(split[0], []).append(split[1])
    keys_by_parts: dict[tuple[str, ...], list[str]] = {}
    for key, found in parts.items():
        keys_by_parts.setdefault(tuple(found), []).append(key)
    return [SampleLayout(found, len(keys), keys[0]) for found, keys in keys_by_parts.items()]


def choose(names: Iterable[str]) -> KeyRuleChoice:
    return choose_key_rule(layouts(names))


def keys(names: Iterable[str], rule: KeyRuleChoice) -> list[str]:
    return sorted({split[0] for name in names if (split := split_name_by_rule(name, rule.rule)) is not None})


def product(stems: Iterable[str], endings: str) -> list[str]:
    return [f"{stem}.{ending}" for stem in stems for ending in endings.split()]


DATES = product([f"IMG_2024.01.{day:02d}" for day in range(1, 23)], "jpg txt")
PAIRS = product([f"{i:04d}" for i in range(40)], "jpg txt")
DOCUMENTS = range(20)

#: Names, the expected rule, and the number of samples that it makes.
LAYOUTS = {
    "pairs": (PAIRS, "first-dot", 40),
    "dates": (DATES, "known-extension", 22),
    "dates over two years": (DATES + [name.replace("2024", "2025") for name in DATES], "known-extension", 44),
    "dates of mixed pictures": ([n.replace("05.jpg", "05.png") for n in DATES], "known-extension", 22),
    "dates of which one has no text": (DATES[:-1], "known-extension", 22),
    "dates among other pairs": (DATES + PAIRS, "known-extension", 62),
    "a mask beside picture and JSON": (product("ab", "seg.png jpg json"), "first-dot", 2),
    "a version in the name": (product(["v1.2_sample"], "wav txt"), "known-extension", 1),
    "versions in the names": (product(["v1.2_sample", "v1.3_sample"], "wav txt"), "known-extension", 2),
    "a word before the ending": (["photo.final.jpg"], "known-extension", 1),
    "some with a second version": (PAIRS + product(["0007.final"], "jpg txt"), "known-extension", 41),
    "endings of two words": (["x.tar.gz", "y.tar.gz", "z.tar.gz"], "first-dot", 3),
    "classes": (product(["0001", "0002"], "cls jpg"), "first-dot", 2),
    "two languages and a sound": (["file.en.txt", "file.de.txt", "file.wav"], "first-dot", 1),
    "a film with subtitles": (["My.Film.2019.mkv", "My.Film.2019.en.srt", "Next.mkv"], "known-extension", 2),
    "numbered pictures alone": ([f"scan.{i:04d}.jpg" for i in range(15)], "known-extension", 15),
    "pictures of a document": (
        [f"{d}.{i}.jpg" for d in DOCUMENTS for i in range(1 + d % 4)] + [f"{d}.json" for d in DOCUMENTS],
        "first-dot",
        20,
    ),
    "two views of everything": (product(map(str, DOCUMENTS), "near.jpg far.jpg"), "first-dot", 20),
    "a part that some have": (PAIRS + product(["0003", "0004"], "spectrum.npy"), "first-dot", 40),
    "hidden files and files without a dot": ([".DS_Store", "README", *PAIRS], "first-dot", 40),
    "letters of all kinds": (product(["été.1", "été.2", "写真.1", "写真.2"], "jpg txt"), "known-extension", 4),
    "endings in capitals": (product(["a.1", "a.2"], "JPG TXT"), "known-extension", 2),
    "two dots side by side": (product(["a.", "b."], "jpg txt"), "first-dot", 2),
}  # fmt: skip

#: Ambiguous names: more than one rule fits, with different samples.
OPEN = {
    "pictures of documents, and nothing else": [f"{d}.{i}.jpg" for d in DOCUMENTS for i in range(1 + d % 4)],
    "many frames of several films": [f"film{f}.{i:04d}.jpg" for f in range(3) for i in range(25)],
    "numbered pairs of two sessions": product([f"s{s}.take_{i}" for s in (1, 2) for i in range(9)], "jpg txt"),
    "compound endings and dates": [*product(map(str, DOCUMENTS), "jpg spectrum.npy"), *DATES],
}


@pytest.mark.parametrize(("names", "rule", "samples"), LAYOUTS.values(), ids=LAYOUTS)
def test_choose_key_rule_finds_rule_and_sample_count(names: list[str], rule: str, samples: int) -> None:
    found = choose(names)

    assert (found.rule, found.is_clear, len(keys(names, found))) == (rule, True, samples)


@pytest.mark.parametrize("names", OPEN.values(), ids=OPEN)
def test_ambiguous_names_give_no_clear_rule(names: list[str]) -> None:
    found = choose(names)

    assert not found.is_clear
    assert found.odd_share > 0.3


def test_unknown_word_in_unaffected_sample_has_no_odd_share() -> None:
    found = choose(["0.jpg", "0.json", "1.jpg", "zz.a.rather.long.ending"])

    assert (found.rule, found.odd_share) == ("known-extension", 0)


def test_names_with_one_dot_leave_rule_open() -> None:
    assert choose(PAIRS).is_open
    assert not choose(DATES).is_open


def test_rule_choice_has_reason_outcome_and_rejected_rules() -> None:
    found = choose(DATES)

    assert (
        found.reason
        == "with keys up to the first dot, IMG_2024.01.01.jpg and IMG_2024.01.22.txt (44 files) would be one sample"
    )
    assert found.outcome == "22 samples of up to 2 files"
    assert [tuple(each) for each in found.rejected] == [
        ("first-dot", "1 sample of up to 44 files"),
        ("last-dot", "the same result for these names"),
    ]


def test_few_odd_names_among_many_give_small_odd_share() -> None:
    many = product([f"{i:06d}" for i in range(5000)], "jpg txt")

    assert 0 < choose([*many, *product(["a.1", "a.2"], "jpg txt")]).odd_share < 0.01


def test_describe_rule_outcome_counts_samples_and_files() -> None:
    assert describe_rule_outcome(layouts(DATES), "last-dot") == "22 samples of up to 2 files"
    assert describe_rule_outcome(layouts(["a.b.jpg"]), "first-dot") == "1 sample"
