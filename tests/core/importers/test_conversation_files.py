"""JSON and JSONL of conversations: LLaVA, ShareGPT, OpenAI messages."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import describe_source, description_findings, open_error, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.importers.protocol import DescribedSource

WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0"


def conversation(*words: str, key: str = "conversations", **others: object) -> dict[str, object]:
    turns = [{"from": ("human", "gpt")[i % 2], "value": each} for i, each in enumerate(words)]
    return {key: turns, **others}


TALK = [{"from": "human", "value": "<image>\nWhat? é"}, {"from": "gpt", "value": "That."}]


def test_conversation_records_become_samples_with_image_and_conversations(tmp_path: Path) -> None:
    records = [{"id": "a/1", "image": "coco/1.jpg", "conversations": TALK}, conversation("hi", "hello", id=2)]
    root = a_folder(tmp_path, {"t.json": json.dumps(records).encode(), "images/coco/1.jpg": b"one"})

    found = read_samples(f"{root}/t.json")

    assert importers.best_importer(f"{root}/t.json")[0].name == "json"
    assert found["a/1"]["jpg"] == b"one"
    assert json.loads(found["a/1"]["json"]) == {"id": "a/1", "conversations": TALK}
    assert list(found["2"]) == ["json"]


def test_missing_images_and_bad_items_are_faults(tmp_path: Path) -> None:
    data = (
        b'[{"id":"a","image":"1.jpg"},\n 3 , {"id":"b","image":"2.jpg"}, {"id":"\xff"}, {"id":"c","image":"../x.jpg"}]'
    )
    root = a_folder(tmp_path, {"t.json": data, "1.jpg": b"one"})

    assert {place: error.code for place, error in read_errors(f"{root}/t.json").items()} == {
        1: "WDS121", 2: "WDS231", 3: "WDS124", 4: "WDS230",
    }  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [b'[{"id":"a"},{"id":', b'[{"id":"a"} {"id":"b"}]', b'[{"id":"a"},', b"[}", b"[", b'[{"id":"a"}]\n[{"id":"b"}]'],
)
def test_json_refuses_truncated_or_broken_list_with_byte_position(tmp_path: Path, data: bytes) -> None:
    root = a_folder(tmp_path, {"t.json": data})

    error = open_error(f"{root}/t.json", form="json")

    assert error.code == "WDS233"
    assert "(byte " in error.where


def test_empty_list_has_no_samples(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.json": b" [ ] "})

    assert read_samples(f"{root}/t.json") == {}


IMAGES = {"a.jpg": b"A", "b.png": b"B", "c.mp4": b"C"}


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        (conversation("<image>\nhi", "x", image="a.jpg"), {"jpg": b"A"}),
        (conversation("<image> <image>", "x", images=["b.png", "a.jpg"]), {"0.png": b"B", "1.jpg": b"A"}),
        (conversation("<image> <video>", "x", image="a.jpg", video="c.mp4"), {"0.jpg": b"A", "1.mp4": b"C"}),
        (conversation("<image>\nhi", "x", video="c.mp4"), {"mp4": b"C"}),
        (conversation("hi", "x", image=None, images=[]), {}),
        (conversation("hi", "x", system="Be brief.", tools="[]"), {}),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "b.png"}},
                            {"type": "text", "text": "and"},
                            {"type": "image", "image": "a.jpg"},
                        ],
                    },
                    {"role": "assistant", "content": "x"},
                ]
            },
            {"0.png": b"B", "1.jpg": b"A"},
        ),
        (
            {
                "messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "hi"}]}],
                "images": ["a.jpg"],
            },
            {"jpg": b"A"},
        ),
    ],
)
@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_conversation_media_become_parts_in_order_of_placeholders(
    tmp_path: Path, name: str, row: dict[str, object], parts: dict[str, bytes]
) -> None:
    data = json.dumps([row]) if name == "t.json" else json.dumps(row)
    root = a_folder(tmp_path, {name: data.encode(), **IMAGES})

    (found,) = read_samples(f"{root}/{name}").values()

    assert {part: data for part, data in found.items() if part != "json"} == parts
    json_part = json.loads(found["json"])
    assert json_part == {key: value for key, value in row.items() if key not in ("image", "images", "video")}


def test_data_urls_are_decoded_and_named_by_content(tmp_path: Path) -> None:
    picture = an_image("PNG")
    url = f"data:image/jpeg;base64,{b64encode(picture).decode()}"
    sound = {"type": "input_audio", "input_audio": {"data": b64encode(WAV).decode(), "format": "wav"}}
    content = [{"type": "image_url", "image_url": {"url": url}}, sound, {"type": "text", "text": "hi"}]
    row = {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "x"}]}
    root = a_folder(tmp_path, {"t.json": json.dumps([row]).encode()})

    (found,) = read_samples(f"{root}/t.json").values()

    assert (found["0.png"], found["1.wav"]) == (picture, WAV)


@pytest.mark.parametrize(
    ("row", "code", "problem"),
    [
        (conversation("<image> hi", "x"), "WDS161", "its turns have 1 <image> token, but the sample has 0 images"),
        (conversation("<image> hi", "x", images=["a.jpg", "b.png"]), "WDS161", "but the sample has 2 images"),
        (conversation("hi", ""), "WDS161", "turn 1 is empty"),
        (
            conversation("<image> hi", "x", image="https://example.com/a.jpg"),
            "WDS230",
            "is a URL, which wdsctl never fetches",
        ),
        (conversation("<image> hi", "x", image="../a.jpg"), "WDS230", "contains `..`"),
        (conversation("<image> hi", "x", image="nowhere.jpg"), "WDS231", "the file does not exist"),
        (conversation("<image> hi", "x", image="data:image/png;base64,?"), "WDS232", "the data: URL cannot be read"),
        (conversation("<image> hi", "x", image="data:text,hi"), "WDS232", "the data: URL cannot be read"),
        (conversation("<image> hi", "x", image={"a": 1}), "WDS232", "expected a file or bytes"),
        (conversation("<image> hi", "x", image=[["a.jpg"]]), "WDS232", "found a list in a list"),
        (
            {
                "messages": [{"role": "user", "content": [{"type": "image", "image": "a.jpg"}]}],
                "images": ["b.png"],
            },
            "WDS161",
            "so the order of the media is unclear",
        ),
        ({"conversations": "hi"}, "WDS161", "conversations: expected a list, found text"),
    ],
)
def test_conversation_that_does_not_match_its_media_is_fault(
    tmp_path: Path, row: dict[str, object], code: str, problem: str
) -> None:
    rows = [conversation("hi", "x"), row]
    root = a_folder(
        tmp_path, {"sub/t.json": json.dumps(rows).encode(), "sub/a.jpg": b"A", "sub/b.png": b"B", "a.jpg": b"A"}
    )

    (error,) = read_errors(f"{root}/sub/t.json").values()

    assert (error.code, problem in error.message) == (code, True)
    assert "t.json, item 1" in error.where


def test_conversations_describe_fields_and_sample_type(tmp_path: Path) -> None:
    rows = [conversation("<image> hi", "x", id="a", image="a.jpg"), conversation("hi", "x", id="b", source="web")]
    root = a_folder(tmp_path, {"t.json": json.dumps(rows).encode(), **IMAGES})

    with importers.get_importer("json").open(f"{root}/t.json", {}) as source:
        assert isinstance(source, DescribedSource)
        description = source.describe()

    assert [use[:2] for use in description.field_uses] == [
        ("conversations", "json[conversations]"),
        ("id", "json[id]"),
        ("image", "jpg"),
        ("source", "json[source]"),
    ]
    assert description.config is not None
    assert description.config.sample_type == "ConversationSample"
    assert description.config.field_map == {"messages": "json", "images": "*", "videos": "*", "audios": "*"}


def test_conversations_without_id_get_numbered_keys(tmp_path: Path) -> None:
    rows = [conversation("<image> hi", "x", image="a.jpg")] * 2
    root = a_folder(tmp_path, {"t.json": json.dumps(rows).encode(), **IMAGES})

    assert list(read_samples(f"{root}/t.json")) == ["000000000", "000000001"]


def test_question_and_answer_fields_stay_separate(tmp_path: Path) -> None:
    rows = [{"image": "a.jpg", "question": "what?", "answer": "a cat"}]
    root = a_folder(tmp_path, {"t.json": json.dumps(rows).encode(), **IMAGES})

    assert read_samples(f"{root}/t.json") == {"a": {"jpg": b"A", "json": b'{"question":"what?","answer":"a cat"}'}}


def test_conversations_report_unreferenced_and_shared_images(tmp_path: Path) -> None:
    image_names = ["0.jpg", "1.jpg", "1.jpg"]
    items = [{"id": str(i), "image": f"images/{name}", "conversations": TALK} for i, name in enumerate(image_names)]
    files = {f"images/{i}.jpg": b"%d" % i for i in range(4)}
    root = a_folder(tmp_path, {**files, "t.json": json.dumps(items).encode()})

    assert description_findings(f"{root}/t.json", form="json") == [("WDS250", "note", 1), ("WDS239", "warning", 2)]
    messages = [found.message for found in describe_source(f"{root}/t.json", form="json").findings]
    assert "images/1.jpg" in messages[0]
    assert "images/2.jpg" in messages[1]
    assert list(read_samples(f"{root}/t.json", form="json")) == ["0", "1", "2"]


def test_conversations_with_assistant_first_or_no_image_token_are_counted(tmp_path: Path) -> None:
    def turns(*each: tuple[str, str]) -> list[dict[str, str]]:
        return [{"from": role, "value": text} for role, text in each]

    rows = [
        {"id": "a", "image": "1.jpg", "conversations": turns(("human", "<image>\nhi"), ("gpt", "yes"))},
        {"id": "b", "image": "1.jpg", "conversations": turns(("system", "be"), ("gpt", "yes"), ("human", "<image>no"))},
        {"id": "c", "image": "1.jpg", "conversations": turns(("human", "hi"), ("gpt", "yes"))},
        {"id": "d", "image": "1.jpg", "conversations": turns(("human", "hi"), ("gpt", "yes"))},
        {"id": "e", "conversations": turns(("human", "hi"), ("gpt", "yes"))},
    ]
    root = a_folder(tmp_path, {"1.jpg": b"x", "t.json": json.dumps(rows).encode()})

    found = description_findings(f"{root}/t.json")
    assert ("WDS162", "warning", 1) in found
    assert ("WDS255", "note", 2) in found


def test_chosen_and_rejected_answers_are_preference_samples(tmp_path: Path) -> None:
    prompt = [{"from": "human", "value": "<image>\nWhat?"}]
    row = {"conversations": prompt, "chosen": {"from": "gpt", "value": "A cat."}, "images": ["1.jpg"]}
    rows = [{**row, "rejected": {"from": "gpt", "value": "A dog."}}, {**row, "rejected": {"from": "gpt", "value": ""}}]
    root = a_folder(tmp_path, {"1.jpg": an_image("JPEG"), "t.json": json.dumps(rows).encode()})

    config = describe_source(f"{root}/t.json").config

    assert config is not None
    assert (config.sample_type, config.field_map["prompt"], config.field_map["rejected"]) == (
        "PreferenceSample", "json", "json[rejected]",
    )  # fmt: skip
    assert {index: error.code for index, error in read_errors(f"{root}/t.json").items()} == {1: "WDS161"}


def test_images_of_conversations_are_found_in_any_subfolder(tmp_path: Path) -> None:
    rows = [conversation("<image> hi", "x", id="a", image="a.jpg")]
    root = a_folder(tmp_path, {"t.json": json.dumps(rows).encode(), "pictures/a.jpg": b"A", "empty/b.jpg": b"B"})

    assert read_samples(f"{root}/t.json")["a"]["jpg"] == b"A"


def test_images_outside_folder_of_conversations_need_option(tmp_path: Path) -> None:
    rows = [conversation("<image> hi", "x", id="a", image="images/a.jpg")]
    root = a_folder(tmp_path, {"json/t.json": json.dumps(rows).encode(), "images/a.jpg": b"A"})

    error = open_error(f"{root}/json/t.json", form="json")

    assert error.code == "WDS230"
    assert f"-O base={root}" in error.hint
