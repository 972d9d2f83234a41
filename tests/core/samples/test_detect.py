from __future__ import annotations

import io
import json
import wave
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import an_image
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, decodable_extensions
from wdsctl.core.samples.detect import Detection, Evidence, PartEvidence, infer_sample_type
from wdsctl.core.samples.field_map import validate_field_map
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES


def a_sound() -> bytes:
    target = io.BytesIO()
    with wave.open(target, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8_000)
        out.writeframes(b"\0\0" * 80)
    return target.getvalue()


JPEG, PNG, WAV = an_image("JPEG"), an_image("PNG"), a_sound()
NUMPY = b"\x93NUMPY\1\0"
MP4 = b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + bytes(64)


SUBTITLES = b"WEBVTT\n\n00:00.000 --> 00:01.500\nhello\n"
TURNS = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
IMAGE_TURNS = [{"role": "user", "content": "<image> hi"}, {"role": "assistant", "content": "hello"}]
COCO = {"annotations": [{"bbox": [0, 0, 1, 1], "category_id": 3, "iscrowd": 0, "area": 1.5}]}


def seen(**parts: bytes | dict[str, Any] | list[Any] | tuple[int, bytes]) -> Evidence:
    """A hundred samples. Underscores in names stand for dots; a dict or list is JSON; (60, x) is in 60 samples."""
    evidence = []
    for name, content in parts.items():
        samples, value = content if isinstance(content, tuple) else (100, content)
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        evidence.append(PartEvidence(name.replace("_", "."), samples, (data,) * 24))
    return Evidence(100, tuple(evidence))


def reason_against(detection: Detection, sample_type: str) -> str:
    return next(rejected.reason for rejected in detection.rejected if rejected.sample_type == sample_type)


@pytest.mark.parametrize(
    ("evidence", "sample_type", "field_map"),
    [
        (seen(jpg=JPEG), "ImageSample", {"image": "jpg"}),
        (seen(jpg=JPEG, txt=b"a dog"), "CaptioningSample", {"image": "jpg", "caption": "txt"}),
        (
            seen(jpg=JPEG, json={"caption": "x", "w": 3}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[caption]"},
        ),
        (
            seen(jpg=JPEG, json={"uid": "u7", "txt": "x", "width": 4}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[txt]"},
        ),
        (
            seen(png=PNG, json={"text": "x", "objects": {"bbox": [[0, 0, 1, 1]], "categories": [2]}}),
            "DetectionSample",
            {"image": "png", "boxes": "json[objects][bbox]", "labels": "json[objects][categories]"},
        ),
        (
            seen(png=PNG, json={"objects": {"bbox": [[0, 0, 1, 1]], "category": ["dog"]}}),
            "DetectionSample",
            {"image": "png", "boxes": "json[objects][bbox]", "label_names": "json[objects][category]"},
        ),
        (seen(jpg=JPEG, json={"prompt": "x"}), "CaptioningSample", {"image": "jpg", "caption": "json[prompt]"}),
        (
            seen(jpg=JPEG, json={"m": {"Caption": "x"}}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[m][Caption]"},
        ),
        (
            seen(jpg=JPEG, json={"captions": ["x"]}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[captions][0]", "captions": "json[captions]"},
        ),
        (seen(jpg=JPEG, en_caption_txt=b"x"), "CaptioningSample", {"image": "jpg", "caption": "en.caption.txt"}),
        (seen(jpg=JPEG, alt=b"a dog"), "CaptioningSample", {"image": "jpg", "caption": "alt"}),
        (seen(jpg=JPEG, txt={"caption": "x"}), "CaptioningSample", {"image": "jpg", "caption": "txt[caption]"}),
        (seen(jpg=JPEG, cls=b"17"), "ImageClassificationSample", {"image": "jpg", "label": "cls"}),
        (seen(jpg=JPEG, json={"label": 3}), "ImageClassificationSample", {"image": "jpg", "label": "json[label]"}),
        (
            seen(jpg=JPEG, json={"label": "cat"}),
            "ImageClassificationSample",
            {"image": "jpg", "label_name": "json[label]"},
        ),
        (seen(jpg=JPEG, cls=b"cat"), "ImageClassificationSample", {"image": "jpg", "label_name": "cls"}),
        (
            seen(jpg=JPEG, cls=b"17", json={"class_name": "cat"}),
            "ImageClassificationSample",
            {"image": "jpg", "label": "cls", "label_name": "json[class_name]"},
        ),
        (seen(txt=b"once upon a time"), "TextSample", {"text": "txt"}),
        (seen(json={"text": "once", "url": "x"}), "TextSample", {"text": "json[text]"}),
        (
            seen(jpg=JPEG, json={"question": "what?", "answers": ["a dog"]}),
            "VQASample",
            {"image": "jpg", "context": "json[question]", "answers": "json[answers]"},
        ),
        (seen(jpg=JPEG, question_txt=b"what?"), "VQASample", {"image": "jpg", "context": "question.txt"}),
        (
            seen(jpg=JPEG, json={"prompt": "what?", "response": "a dog"}),
            "VQASample",
            {"image": "jpg", "context": "json[prompt]", "answers": "json[response]"},
        ),
        (
            seen(jpg=JPEG, json={"context": "what?", "choices": ["a", "b"], "answer_idx": 1}),
            "MultiChoiceVQASample",
            {
                "image": "jpg",
                "context": "json[context]",
                "choices": "json[choices]",
                "correct_choice_idx": "json[answer_idx]",
            },
        ),
        (seen(png=PNG, json={"ocr": "STOP"}), "OCRSample", {"image": "png", "text": "json[ocr]"}),
        (
            seen(png=PNG, json={"text": "STOP", "words_boxes": [[0, 0, 1, 1]]}),
            "OCRSample",
            {"image": "png", "text": "json[text]", "words_boxes": "json[words_boxes]"},
        ),
        (
            seen(mp4=MP4, json={"question": "who?", "answer": "a dog"}),
            "VidQASample",
            {"video": "mp4", "context": "json[question]", "answers": "json[answer]"},
        ),
        (seen(mp4=MP4), "VideoSample", {"video": "mp4"}),
        (seen(mp4=MP4, txt=b"a dog"), "VideoSample", {"video": "mp4", "text": "txt"}),
        (seen(mp4=MP4, wav=WAV, txt=b"hi"), "VideoSample", {"video": "mp4", "text": "txt", "audio": "wav"}),
        (seen(mp4=MP4, json={"caption": "a dog"}), "VideoSample", {"video": "mp4", "text": "json[caption]"}),
        (seen(wav=WAV), "AudioSample", {"audio": "wav"}),
        (seen(wav=WAV, txt=b"hello"), "AudioSample", {"audio": "wav", "text": "txt"}),
        (seen(wav=WAV, json={"transcript": "x"}), "AudioSample", {"audio": "wav", "text": "json[transcript]"}),
        (seen(wav=WAV, lab=b"hello"), "AudioSample", {"audio": "wav", "text": "lab"}),
        (
            seen(wav=WAV, json={"sentence": "x", "locale": "en", "client_id": "s7"}),
            "TranscriptionSample",
            {"audio": "wav", "text": "json[sentence]", "language": "json[locale]", "speaker": "json[client_id]"},
        ),
        (
            seen(jpg=JPEG, json=COCO),
            "DetectionSample",
            {
                "image": "jpg",
                "boxes": "json[annotations][*][bbox]",
                "labels": "json[annotations][*][category_id]",
                "is_crowd": "json[annotations][*][iscrowd]",
                "areas": "json[annotations][*][area]",
            },
        ),
        (
            seen(jpg=JPEG, json={"boxes": [[0, 0, 1, 1]], "box_format": "xyxy", "label_names": ["cat"]}),
            "DetectionSample",
            {
                "image": "jpg",
                "boxes": "json[boxes]",
                "box_format": "json[box_format]",
                "label_names": "json[label_names]",
            },
        ),
        (
            seen(jpg=JPEG, json={"annotations": [{"caption": "a dog"}, {"caption": "a cat"}]}),
            "CaptioningSample",
            {
                "image": "jpg",
                "caption": "json[annotations][0][caption]",
                "captions": "json[annotations][*][caption]",
            },
        ),
        (seen(jpg=JPEG, json={"bbox": [0, 0, 1, 1]}), "ImageSample", {"image": "jpg"}),
        (seen(jpg=JPEG, seg_png=PNG), "SegmentationSample", {"image": "jpg", "mask": "seg.png"}),
        (seen(image_png=PNG, mask_png=PNG), "SegmentationSample", {"image": "image.png", "mask": "mask.png"}),
        (
            seen(png=PNG, panoptic_png=PNG, json={"segments_info": [{"id": 7}]}),
            "SegmentationSample",
            {"image": "png", "mask": "panoptic.png", "segments": "json[segments_info]"},
        ),
        (
            seen(wav=WAV, vtt=SUBTITLES),
            "TranscriptionSample",
            {"audio": "wav", "text": "vtt", "segments": "vtt"},
        ),
        (
            seen(mp4=MP4, txt=b"a film", en_srt=SUBTITLES),
            "VideoSample",
            {"video": "mp4", "text": "txt", "segments": "en.srt"},
        ),
        (seen(json={"conversations": TURNS}), "ConversationSample", {"messages": "json"}),
        (seen(json={"data": {"messages": TURNS}}), "ConversationSample", {"messages": "json[data][messages]"}),
        (seen(json={"instruction": "Add", "input": "", "output": "4"}), "ConversationSample", {"messages": "json"}),
        (seen(json={"question": "Why?", "answer": "So."}), "ConversationSample", {"messages": "json"}),
        (
            seen(jpg=JPEG, json={"instruction": "Describe it", "output": "A cat."}),
            "ConversationSample",
            {"messages": "json", "images": "*"},
        ),
        (
            seen(json={"prompt": "Hi", "chosen": "Hello", "rejected": "No", "messages": TURNS}),
            "PreferenceSample",
            {"prompt": "json", "chosen": "json[chosen]", "rejected": "json[rejected]"},
        ),
        (
            seen(jpg=JPEG, json={"prompt": "Hi", "chosen": TURNS, "rejected": TURNS}),
            "PreferenceSample",
            {"prompt": "json", "chosen": "json[chosen]", "rejected": "json[rejected]", "images": "*"},
        ),
        (
            seen(jpg=JPEG, json={"question": "Why?", "answer": "So."}),
            "VQASample",
            {"image": "jpg", "context": "json[question]", "answers": "json[answer]"},
        ),
        (
            seen(jpg=JPEG, json={"conversations": IMAGE_TURNS, "id": 3}),
            "ConversationSample",
            {"messages": "json", "images": "*"},
        ),
        (
            seen(**{"0_jpg": (90, JPEG), "1_png": (20, PNG), "wav": (5, WAV)}, json={"messages": IMAGE_TURNS}),
            "ConversationSample",
            {"messages": "json", "images": "*", "audios": "*"},
        ),
        (
            seen(json={"images": ["1.jpg"], "texts": ["a"], "similarity_matrix": [[0.5]]}),
            "SimilarityInterleavedSample",
            {"images": "json[images]", "texts": "json[texts]", "similarity_matrix": "json[similarity_matrix]"},
        ),
        (seen(json={"sequence": ["a", "1.jpg"]}), "InterleavedSample", {"sequence": "json[sequence]"}),
    ],
)
def test_the_type_that_uses_what_the_samples_have_is_found(
    evidence: Evidence, sample_type: str, field_map: dict[str, str]
) -> None:
    found = infer_sample_type(evidence)

    assert (found.sample_type, found.field_map) == (sample_type, field_map)
    assert found.confidence >= 0.7
    assert validate_field_map(found.sample_type, found.field_map, [part.name for part in evidence.parts])


@pytest.mark.parametrize(
    "evidence",
    [
        seen(bin=bytes(range(256))),
        seen(json={"width": 3}),
        seen(left_jpg=JPEG, right_jpg=JPEG),
        seen(jpg=(60, JPEG)),
        seen(),
        Evidence(0, ()),
        Evidence(0, (PartEvidence("jpg", 0),)),
        Evidence(5, (PartEvidence("jpg", 5),)),
    ],
)
def test_that_no_type_fits_is_an_answer_too(evidence: Evidence) -> None:
    found = infer_sample_type(evidence)

    assert (found.sample_type, found.field_map, found.confidence) == (CRUDE, {}, 0.0)
    assert found.reasons
    assert all(rejected.reason for rejected in found.rejected)
    assert len(found.rejected) == len(SAMPLE_TYPES)


@pytest.mark.parametrize("extension", sorted(decodable_extensions("image")))
def test_an_image_of_any_format_is_the_image_and_its_name_promises_it(extension: str) -> None:
    image = an_image(FORMAT_BY_EXTENSION[extension].readers[0])
    found = infer_sample_type(seen(**{extension: image, f"seg_{extension}": image, "txt": b"a dog"}))

    assert (found.sample_type, found.field_map) == ("CaptioningSample", {"image": extension, "caption": "txt"})
    assert not [reason for reason in found.reasons if "promises" in reason]


def test_media_that_nothing_decodes_are_named_where_an_image_is_missing() -> None:
    assert "heic is in 100 % of samples" in reason_against(infer_sample_type(seen(heic=b"?")), "ImageSample")


@pytest.mark.parametrize(("first", "second"), [("jpg", "png"), ("png", "gif"), ("webp", "avif"), ("mp4", "mkv")])
def test_of_two_media_of_every_sample_the_usual_format_is_taken(first: str, second: str) -> None:
    media = {"jpg": JPEG, "mp4": MP4}
    found = infer_sample_type(
        seen(**{second: media.get(second, MP4 if first == "mp4" else PNG), first: media.get(first, PNG)})
    )

    assert first in (found.field_map.get("image"), found.field_map.get("video"))


def test_every_other_type_is_rejected_with_a_reason() -> None:
    found = infer_sample_type(seen(jpg=JPEG, json={"caption": "x", "width": 3, "height": 4}))

    assert {rejected.sample_type: rejected.reason for rejected in found.rejected} == {
        "ImageSample": "it would leave json unused",
        "ImageClassificationSample": "no label: json has caption, width, height",
        "TextSample": "no text: no text part; json has caption, width, height",
        "VQASample": "no context: no text part; json has caption, width, height",
        "MultiChoiceVQASample": "no context: no text part; json has caption, width, height",
        "OCRSample": "no text: no text part; json has caption, width, height",
        "VQAOCRSample": "no context: no text part; json has caption, width, height",
        "InterleavedSample": "no sequence: json has caption, width, height",
        "SimilarityInterleavedSample": "no images: json has caption, width, height",
        "VidQASample": "no video part",
        "VideoSample": "no video part",
        "AudioSample": "no audio part",
        "TranscriptionSample": "no audio part",
        "DetectionSample": "no boxes: json has caption, width, height",
        "SegmentationSample": "no mask: no image has a mask name (seg.png, mask.png)",
        "ConversationSample": "no messages: json has caption, width, height",
        "PreferenceSample": "no prompt: json has caption, width, height",
    }


def test_the_reasons_say_how_many_samples_have_it_and_what_was_looked_at() -> None:
    found = infer_sample_type(seen(jpg=JPEG, txt=b"a dog"))

    assert found.reasons == (
        "image: jpg is in 100 % of samples, content is JPEG (24 of 24 read)",
        "caption: txt is in 100 % of samples, content is text (24 of 24 read)",
    )
    assert found.kinds == {"jpg": "image/jpeg", "txt": "text"}


def test_the_reason_for_a_key_of_json_says_in_how_many_it_was() -> None:
    heads = (b'{"caption": "a dog"}',) * 49 + (b'{"caption": null}',)
    evidence = Evidence(50, (PartEvidence("jpg", 50, (JPEG,)), PartEvidence("json", 50, heads)))

    found = infer_sample_type(evidence)

    assert found.reasons[1] == "caption: json[caption] is in 98 % of samples, text (49 of 50 read)"


def test_images_of_several_formats_in_different_samples_are_alternatives() -> None:
    found = infer_sample_type(seen(png=(40, PNG), jpg=(60, JPEG), txt=b"a dog"))

    assert found.field_map == {"image": "jpg,png", "caption": "txt"}
    assert found.confidence >= 0.9


def test_an_alternative_may_be_too_rare_to_be_looked_at() -> None:
    evidence = Evidence(100, (PartEvidence("jpg", 98, (JPEG,)), PartEvidence("JPG", 1), PartEvidence("jpeg", 1)))

    assert infer_sample_type(evidence).field_map == {"image": "jpg,JPG,jpeg"}


def test_the_image_is_the_part_without_a_dot_and_the_other_is_left_over() -> None:
    found = infer_sample_type(seen(seg_png=PNG, jpg=JPEG, txt=b"a dog"))

    assert found.field_map == {"image": "jpg", "caption": "txt"}
    assert "not used: seg.png (image/png)" in found.reasons
    assert found.confidence < infer_sample_type(seen(jpg=JPEG, txt=b"a dog")).confidence


def test_the_image_may_be_the_part_whose_name_says_so() -> None:
    assert infer_sample_type(seen(image_png=PNG, depth_png=PNG)).field_map == {"image": "image.png"}


def test_two_images_that_nothing_tells_apart_are_not_guessed_at() -> None:
    found = infer_sample_type(seen(left_jpg=JPEG, right_jpg=JPEG))

    assert reason_against(found, "ImageSample") == ("2 image parts, and only one can be the field: left.jpg, right.jpg")


def test_what_too_few_samples_have_does_not_count() -> None:
    found = infer_sample_type(seen(jpg=JPEG, txt=(60, b"a dog")))

    assert found.sample_type == "ImageSample"
    assert reason_against(found, "CaptioningSample") == "no caption: txt is in 60 % of samples only"


def test_a_few_samples_without_it_do_no_harm() -> None:
    assert infer_sample_type(seen(jpg=JPEG, txt=(96, b"a dog"))).sample_type == "CaptioningSample"


def test_two_types_that_fit_alike_lower_the_confidence_and_are_named() -> None:
    found = infer_sample_type(seen(jpg=JPEG, cls=b"3", txt=b"a dog"))

    assert found.sample_type == "CaptioningSample"
    assert "ImageClassificationSample would fit nearly as well" in found.reasons
    assert found.confidence < 0.7


def labelled(cls: str, *texts: str) -> Evidence:
    """A hundred samples, of which those with these numbers and texts were read."""
    parts = {
        "jpg": (JPEG,) * len(texts),
        "cls": tuple(each.encode() for each in cls),
        "txt": tuple(each.encode() for each in texts),
    }
    return Evidence(100, tuple(PartEvidence(name, 100, heads) for name, heads in parts.items()))


def test_a_text_that_repeats_for_each_number_is_the_name_of_the_class() -> None:
    found = infer_sample_type(labelled("0011", "cat", "cat", "dog\n", "dog"))

    assert (found.sample_type, found.is_sure) == ("ImageClassificationSample", True)
    assert found.field_map == {"image": "jpg", "label": "cls", "label_name": "txt"}
    assert any(reason.endswith("one for each number in cls") for reason in found.reasons)


@pytest.mark.parametrize(
    ("cls", "texts"),
    [
        ("0011", ("a cat", "a cat asleep", "a dog", "a dog")),  # captions differ in a class
        ("0123", ("a cat", "a dog", "a cow", "a pig")),  # nothing repeats
        ("0012", ("a cat", "a cat", "a dog", "a cow")),  # a single repetition
        ("0011", ("a pet",) * 4),
        ("1111", ("a cat",) * 4),
        ("0011", ("x" * 81, "x" * 81, "dog", "dog")),
        ("0011", ("a\nb", "a\nb", "dog", "dog")),
    ],
)
def test_a_text_beside_a_number_that_does_not_name_it_is_a_caption(cls: str, texts: tuple[str, ...]) -> None:
    found = infer_sample_type(labelled(cls, *texts))

    assert (found.sample_type, found.is_sure) == ("CaptioningSample", False)


def test_a_text_part_says_more_than_a_record_beside_it() -> None:
    found = infer_sample_type(seen(jpg=JPEG, txt=b"a dog", json=b'{"label": 3, "class": "dog", "source": "dog.jpg"}'))

    assert (found.sample_type, found.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "txt"})
    assert found.confidence > 0.8


def test_several_texts_that_nothing_tells_apart_are_not_guessed_at() -> None:
    found = infer_sample_type(seen(jpg=JPEG, de=b"ein Hund", en=b"a dog"))

    assert found.sample_type == "ImageSample"
    assert reason_against(found, "CaptioningSample") == ("no caption: 2 text parts, none with a matching name: de, en")


def test_the_content_decides_and_a_false_name_is_mentioned() -> None:
    found = infer_sample_type(seen(jpg=PNG, txt={"caption": "x"}))

    assert found.field_map == {"image": "jpg", "caption": "txt[caption]"}
    assert "jpg: the extension does not match the content, which is PNG (24 of 24)" in found.reasons
    assert "txt: the extension does not match the content, which is a JSON object (24 of 24)" in found.reasons


def test_a_prompt_alone_is_a_caption_and_no_question() -> None:
    found = infer_sample_type(seen(jpg=JPEG, json={"prompt": "a dog"}))

    assert reason_against(found, "VQASample") == "json[prompt] may be a caption: the samples have no answers"


CONTENTS = st.sampled_from([JPEG, PNG, WAV, MP4, b"a dog", b"17", b"", b"\0\1\2", b'{"caption": "x", "label": 3}'])
NAMES = st.sampled_from(["jpg", "png", "seg.png", "txt", "json", "cls", "mp4", "wav", "question.txt", "x"])


@settings(max_examples=200)
@given(st.dictionaries(NAMES, st.tuples(st.integers(0, 20), st.lists(CONTENTS, max_size=3)), max_size=6))
def test_whatever_is_found_fits_its_own_rules(parts: dict[str, tuple[int, list[bytes]]]) -> None:
    evidence = Evidence(20, tuple(PartEvidence(name, n, tuple(heads)) for name, (n, heads) in parts.items()))

    found = infer_sample_type(evidence)

    assert infer_sample_type(evidence) == found
    assert 0 <= found.confidence <= 1
    validate_field_map(found.sample_type, found.field_map, [name for name, (n, _) in parts.items() if n])
    assert len({found.sample_type, *(rejected.sample_type for rejected in found.rejected)}) >= 12


@pytest.mark.parametrize(
    ("evidence", "is_sure", "unused"),
    [
        (seen(jpg=JPEG, txt=b"a dog"), True, ()),
        (seen(mp4=MP4, wav=WAV, txt=b"hi"), True, ()),
        (seen(jpg=JPEG, seg_png=PNG, txt=b"a dog"), False, ("seg.png",)),
        (seen(mp4=MP4, jpg=JPEG, txt=b"hi"), False, ("jpg",)),
        (seen(txt=b"a dog", json={"question": "what?", "caption": "x"}, notes_txt=b"more"), False, ()),
        (seen(npy=NUMPY), True, ()),
        (seen(jpg=JPEG, txt=b"a dog", json={"url": "x"}, t5_npy=NUMPY, vae_npy=NUMPY), True, ()),
    ],
)
def test_a_detection_is_sure_from_eighty_percent_on_if_it_uses_all_media(
    evidence: Evidence, is_sure: bool, unused: tuple[str, ...]
) -> None:
    found = infer_sample_type(evidence)

    assert (found.is_sure, found.unused_media) == (is_sure, unused)


def test_media_of_a_conversation_are_optional_since_some_have_none() -> None:
    found = infer_sample_type(seen(**{"0_jpg": (60, JPEG)}, json={"messages": IMAGE_TURNS}))

    assert (found.field_map, found.optional) == ({"messages": "json", "images": "*"}, ("images",))


def test_a_conversation_whose_media_are_elsewhere_does_not_fit() -> None:
    found = infer_sample_type(seen(json={"messages": IMAGE_TURNS}))

    assert found.sample_type == CRUDE
    assert (
        reason_against(found, "ConversationSample") == "the turns refer to media, but the samples have no media parts"
    )


@pytest.mark.parametrize(
    ("line", "sample_type"),
    [
        ({"text": "once"}, "TextSample"),
        ({"messages": TURNS}, "ConversationSample"),
        ({"instruction": "Add", "input": "2", "output": "4"}, "ConversationSample"),
        ({"prompt": "Hi", "chosen": "Hello", "rejected": "No"}, "PreferenceSample"),
        ({"messages": IMAGE_TURNS}, CRUDE),
        ({"messages": TURNS, "image": "1.jpg"}, CRUDE),
    ],
)
def test_lines_of_json_are_texts_or_conversations_without_media(line: dict[str, Any], sample_type: str) -> None:
    assert infer_sample_type(seen(json=line), is_jsonl=True).sample_type == sample_type


def test_images_without_boxes_are_samples_of_detection_too() -> None:
    heads = (json.dumps(COCO).encode(), b'{"annotations": []}')
    evidence = Evidence(2, (PartEvidence("jpg", 2, (JPEG,)), PartEvidence("json", 2, heads)))

    assert infer_sample_type(evidence).field_map["boxes"] == "json[annotations][*][bbox]"


def test_the_next_best_type_comes_first_among_the_rejected_ones() -> None:
    found = infer_sample_type(seen(jpg=JPEG, txt=b"a dog"))

    assert [rejected.sample_type for rejected in found.rejected][:2] == ["ImageSample", "ImageClassificationSample"]
    assert found.rejected[0].reason == "it would leave txt unused"
    last = [rejected.sample_type for rejected in found.rejected][-7:]
    assert {"VideoSample", "AudioSample", "ConversationSample"} <= set(last)
    assert len(found.rejected) == len(SAMPLE_TYPES) - 1


def test_whole_numbers_in_a_table_without_types_are_labels() -> None:
    found = infer_sample_type(seen(jpg=JPEG, json={"label": "3", "zip": "00123"}))

    assert (found.sample_type, found.field_map) == (
        "ImageClassificationSample",
        {"image": "jpg", "label": "json[label]"},
    )
    assert "label: json[label] is in 100 % of samples, whole numbers as text (24 of 24 read)" in found.reasons


@pytest.mark.parametrize(("having", "sample_type"), [(60, "ImageClassificationSample"), (40, "ImageSample")])
def test_a_label_that_most_samples_have_is_an_optional_field(having: int, sample_type: str) -> None:
    found = infer_sample_type(seen(jpg=JPEG, json=(having, b'{"label": "3"}')))

    assert found.sample_type == sample_type
    assert found.optional == (("label",) if having == 60 else ())
    assert any(reason.endswith("; None in the others") for reason in found.reasons) == (having == 60)
