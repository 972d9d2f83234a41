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


def make_evidence(**parts: bytes | dict[str, Any] | list[Any] | tuple[int, bytes | dict[str, Any]]) -> Evidence:
    """Evidence of 100 samples. Underscores in names mean dots; dicts and lists are JSON; (60, x) is in 60 samples."""
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
        (make_evidence(jpg=JPEG), "ImageSample", {"image": "jpg"}),
        (make_evidence(jpg=JPEG, txt=b"a dog"), "CaptioningSample", {"image": "jpg", "caption": "txt"}),
        (
            make_evidence(jpg=JPEG, json={"caption": "x", "w": 3}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[caption]"},
        ),
        (
            make_evidence(jpg=JPEG, json={"uid": "u7", "txt": "x", "width": 4}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[txt]"},
        ),
        (
            make_evidence(png=PNG, json={"text": "x", "objects": {"bbox": [[0, 0, 1, 1]], "categories": [2]}}),
            "DetectionSample",
            {"image": "png", "boxes": "json[objects][bbox]", "labels": "json[objects][categories]"},
        ),
        (
            make_evidence(png=PNG, json={"objects": {"bbox": [[0, 0, 1, 1]], "category": ["dog"]}}),
            "DetectionSample",
            {"image": "png", "boxes": "json[objects][bbox]", "label_names": "json[objects][category]"},
        ),
        (
            make_evidence(jpg=JPEG, json={"prompt": "x"}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[prompt]"},
        ),
        (
            make_evidence(jpg=JPEG, json={"m": {"Caption": "x"}}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[m][Caption]"},
        ),
        (
            make_evidence(jpg=JPEG, json={"captions": ["x"]}),
            "CaptioningSample",
            {"image": "jpg", "caption": "json[captions][0]", "captions": "json[captions]"},
        ),
        (
            make_evidence(jpg=JPEG, en_caption_txt=b"x"),
            "CaptioningSample",
            {"image": "jpg", "caption": "en.caption.txt"},
        ),
        (make_evidence(jpg=JPEG, alt=b"a dog"), "CaptioningSample", {"image": "jpg", "caption": "alt"}),
        (
            make_evidence(jpg=JPEG, txt={"caption": "x"}),
            "CaptioningSample",
            {"image": "jpg", "caption": "txt[caption]"},
        ),
        (make_evidence(jpg=JPEG, cls=b"17"), "ImageClassificationSample", {"image": "jpg", "label": "cls"}),
        (
            make_evidence(jpg=JPEG, json={"label": 3}),
            "ImageClassificationSample",
            {"image": "jpg", "label": "json[label]"},
        ),
        (
            make_evidence(jpg=JPEG, json={"label": "cat"}),
            "ImageClassificationSample",
            {"image": "jpg", "label_name": "json[label]"},
        ),
        (make_evidence(jpg=JPEG, cls=b"cat"), "ImageClassificationSample", {"image": "jpg", "label_name": "cls"}),
        (
            make_evidence(jpg=JPEG, cls=b"17", json={"class_name": "cat"}),
            "ImageClassificationSample",
            {"image": "jpg", "label": "cls", "label_name": "json[class_name]"},
        ),
        (make_evidence(txt=b"once upon a time"), "TextSample", {"text": "txt"}),
        (make_evidence(json={"text": "once", "url": "x"}), "TextSample", {"text": "json[text]"}),
        (
            make_evidence(jpg=JPEG, json={"question": "what?", "answers": ["a dog"]}),
            "VQASample",
            {"image": "jpg", "context": "json[question]", "answers": "json[answers]"},
        ),
        (make_evidence(jpg=JPEG, question_txt=b"what?"), "VQASample", {"image": "jpg", "context": "question.txt"}),
        (
            make_evidence(jpg=JPEG, json={"prompt": "what?", "response": "a dog"}),
            "VQASample",
            {"image": "jpg", "context": "json[prompt]", "answers": "json[response]"},
        ),
        (
            make_evidence(jpg=JPEG, json={"context": "what?", "choices": ["a", "b"], "answer_idx": 1}),
            "MultiChoiceVQASample",
            {
                "image": "jpg",
                "context": "json[context]",
                "choices": "json[choices]",
                "correct_choice_idx": "json[answer_idx]",
            },
        ),
        (
            make_evidence(png=PNG, json={"comment": "a dog", "comment_number": 0}),
            "CaptioningSample",
            {"image": "png", "caption": "json[comment]"},
        ),
        (make_evidence(png=PNG, json={"ocr": "STOP"}), "OCRSample", {"image": "png", "text": "json[ocr]"}),
        (
            make_evidence(png=PNG, json={"text": "STOP", "words_boxes": [[0, 0, 1, 1]]}),
            "OCRSample",
            {"image": "png", "text": "json[text]", "words_boxes": "json[words_boxes]"},
        ),
        (
            make_evidence(mp4=MP4, json={"question": "who?", "answer": "a dog"}),
            "VidQASample",
            {"video": "mp4", "context": "json[question]", "answers": "json[answer]"},
        ),
        (make_evidence(mp4=MP4), "VideoSample", {"video": "mp4"}),
        (make_evidence(mp4=MP4, txt=b"a dog"), "VideoSample", {"video": "mp4", "text": "txt"}),
        (make_evidence(mp4=MP4, wav=WAV, txt=b"hi"), "VideoSample", {"video": "mp4", "text": "txt", "audio": "wav"}),
        (make_evidence(mp4=MP4, json={"caption": "a dog"}), "VideoSample", {"video": "mp4", "text": "json[caption]"}),
        (make_evidence(wav=WAV), "AudioSample", {"audio": "wav"}),
        (make_evidence(wav=WAV, txt=b"hello"), "AudioSample", {"audio": "wav", "text": "txt"}),
        (make_evidence(wav=WAV, json={"transcript": "x"}), "AudioSample", {"audio": "wav", "text": "json[transcript]"}),
        (make_evidence(wav=WAV, lab=b"hello"), "AudioSample", {"audio": "wav", "text": "lab"}),
        (
            make_evidence(wav=WAV, json={"sentence": "x", "locale": "en", "client_id": "s7"}),
            "TranscriptionSample",
            {"audio": "wav", "text": "json[sentence]", "language": "json[locale]", "speaker": "json[client_id]"},
        ),
        (
            make_evidence(jpg=JPEG, json=COCO),
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
            make_evidence(jpg=JPEG, json={"boxes": [[0, 0, 1, 1]], "box_format": "xyxy", "label_names": ["cat"]}),
            "DetectionSample",
            {
                "image": "jpg",
                "boxes": "json[boxes]",
                "box_format": "json[box_format]",
                "label_names": "json[label_names]",
            },
        ),
        (
            make_evidence(jpg=JPEG, json={"annotations": [{"caption": "a dog"}, {"caption": "a cat"}]}),
            "CaptioningSample",
            {
                "image": "jpg",
                "caption": "json[annotations][0][caption]",
                "captions": "json[annotations][*][caption]",
            },
        ),
        (make_evidence(jpg=JPEG, json={"bbox": [0, 0, 1, 1]}), "ImageSample", {"image": "jpg"}),
        (make_evidence(jpg=JPEG, seg_png=PNG), "SegmentationSample", {"image": "jpg", "mask": "seg.png"}),
        (make_evidence(image_png=PNG, mask_png=PNG), "SegmentationSample", {"image": "image.png", "mask": "mask.png"}),
        (
            make_evidence(png=PNG, panoptic_png=PNG, json={"segments_info": [{"id": 7}]}),
            "SegmentationSample",
            {"image": "png", "mask": "panoptic.png", "segments": "json[segments_info]"},
        ),
        (
            make_evidence(wav=WAV, vtt=SUBTITLES),
            "TranscriptionSample",
            {"audio": "wav", "text": "vtt", "segments": "vtt"},
        ),
        (
            make_evidence(mp4=MP4, txt=b"a film", en_srt=SUBTITLES),
            "VideoSample",
            {"video": "mp4", "text": "txt", "segments": "en.srt"},
        ),
        (make_evidence(json={"conversations": TURNS}), "ConversationSample", {"messages": "json"}),
        (make_evidence(json={"data": {"messages": TURNS}}), "ConversationSample", {"messages": "json[data][messages]"}),
        (
            make_evidence(json={"instruction": "Add", "input": "", "output": "4"}),
            "ConversationSample",
            {"messages": "json"},
        ),
        (make_evidence(json={"question": "Why?", "answer": "So."}), "ConversationSample", {"messages": "json"}),
        (
            make_evidence(jpg=JPEG, json={"instruction": "Describe it", "output": "A cat."}),
            "ConversationSample",
            {"messages": "json", "images": "*"},
        ),
        (
            make_evidence(json={"prompt": "Hi", "chosen": "Hello", "rejected": "No", "messages": TURNS}),
            "PreferenceSample",
            {"prompt": "json", "chosen": "json[chosen]", "rejected": "json[rejected]"},
        ),
        (
            make_evidence(jpg=JPEG, json={"prompt": "Hi", "chosen": TURNS, "rejected": TURNS}),
            "PreferenceSample",
            {"prompt": "json", "chosen": "json[chosen]", "rejected": "json[rejected]", "images": "*"},
        ),
        (
            make_evidence(jpg=JPEG, json={"question": "Why?", "answer": "So."}),
            "VQASample",
            {"image": "jpg", "context": "json[question]", "answers": "json[answer]"},
        ),
        (
            make_evidence(jpg=JPEG, json={"conversations": IMAGE_TURNS, "id": 3}),
            "ConversationSample",
            {"messages": "json", "images": "*"},
        ),
        (
            make_evidence(**{"0_jpg": (90, JPEG), "1_png": (20, PNG), "wav": (5, WAV)}, json={"messages": IMAGE_TURNS}),
            "ConversationSample",
            {"messages": "json", "images": "*", "audios": "*"},
        ),
        (make_evidence(json={"sequence": ["a", "1.jpg"]}), "InterleavedSample", {"sequence": "json[sequence]"}),
        (
            make_evidence(jpg=JPEG, json={"texts": [{"user": "Why?", "assistant": "So.", "source": "ai2d"}]}),
            "ConversationSample",
            {"messages": "json", "images": "*"},
        ),
        (
            make_evidence(jpg=JPEG, json={"images": [None, "a/x.jpg"], "texts": ["a", None]}),
            "InterleavedSample",
            {"sequence": "json", "images": "*"},
        ),
        (
            make_evidence(
                **{"0_jpg": (100, JPEG), "1_png": (40, PNG)},
                json={"sequence": ["a", {"type": "image", "image": "0.jpg"}, {"type": "image", "image": "1.png"}]},
            ),
            "InterleavedSample",
            {"sequence": "json", "images": "*"},
        ),
        (
            make_evidence(
                jpg=JPEG, json={"text_list": ["a"], "image_info": [{"image_name": "x.jpg", "matched_text_index": 0}]}
            ),
            "InterleavedSample",
            {"sequence": "json", "images": "*"},
        ),
    ],
)
def test_infer_sample_type_finds_type_and_field_map(
    evidence: Evidence, sample_type: str, field_map: dict[str, str]
) -> None:
    detection = infer_sample_type(evidence)

    assert (detection.sample_type, detection.field_map) == (sample_type, field_map)
    assert detection.confidence >= 0.7
    assert validate_field_map(detection.sample_type, detection.field_map, [part.name for part in evidence.parts])


@pytest.mark.parametrize(
    "evidence",
    [
        make_evidence(bin=bytes(range(256))),
        make_evidence(json={"width": 3}),
        make_evidence(json={"images": ["1.jpg"], "texts": ["a"], "similarity_matrix": [[0.5]]}),
        make_evidence(json={"images": ["1.jpg", None], "texts": [None, "a"]}),
        make_evidence(
            **{"0_jpg": JPEG, "1_jpg": JPEG},
            json={"images": ["1.jpg", None, "0.jpg"], "texts": [None, "a", None]},
        ),
        make_evidence(left_jpg=JPEG, right_jpg=JPEG),
        make_evidence(jpg=(60, JPEG)),
        make_evidence(),
        Evidence(0, ()),
        Evidence(0, (PartEvidence("jpg", 0),)),
        Evidence(5, (PartEvidence("jpg", 5),)),
    ],
)
def test_crude_type_is_inferred_when_no_type_fits(evidence: Evidence) -> None:
    detection = infer_sample_type(evidence)

    assert (detection.sample_type, detection.field_map, detection.confidence) == (CRUDE, {}, 0.0)
    assert detection.reasons
    assert all(rejected.reason for rejected in detection.rejected)
    assert len(detection.rejected) == len(SAMPLE_TYPES)


@pytest.mark.parametrize("extension", sorted(decodable_extensions("image")))
def test_every_image_format_is_recognised_as_image(extension: str) -> None:
    image = an_image(FORMAT_BY_EXTENSION[extension].readers[0])
    detection = infer_sample_type(make_evidence(**{extension: image, f"seg_{extension}": image, "txt": b"a dog"}))

    assert (detection.sample_type, detection.field_map) == ("CaptioningSample", {"image": extension, "caption": "txt"})
    assert not [reason for reason in detection.reasons if "promises" in reason]


def test_undecodable_media_are_named_in_rejection_reason() -> None:
    assert "heic is in 100 % of samples" in reason_against(infer_sample_type(make_evidence(heic=b"?")), "ImageSample")


@pytest.mark.parametrize(("first", "second"), [("jpg", "png"), ("png", "gif"), ("webp", "avif"), ("mp4", "mkv")])
def test_usual_format_is_preferred_among_two_media_parts(first: str, second: str) -> None:
    media = {"jpg": JPEG, "mp4": MP4}
    detection = infer_sample_type(
        make_evidence(**{second: media.get(second, MP4 if first == "mp4" else PNG), first: media.get(first, PNG)})
    )

    assert first in (detection.field_map.get("image"), detection.field_map.get("video"))


def test_every_other_type_is_rejected_with_reason() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, json={"caption": "x", "width": 3, "height": 4}))

    assert {rejected.sample_type: rejected.reason for rejected in detection.rejected} == {
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


def test_reasons_have_share_of_samples_and_content_kind() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, txt=b"a dog"))

    assert detection.reasons == (
        "image: jpg is in 100 % of samples, content is JPEG (24 of 24 read)",
        "caption: txt is in 100 % of samples, content is text (24 of 24 read)",
    )
    assert detection.kinds == {"jpg": "image/jpeg", "txt": "text"}


def test_reason_for_json_key_has_its_share() -> None:
    heads = (b'{"caption": "a dog"}',) * 49 + (b'{"caption": null}',)
    evidence = Evidence(50, (PartEvidence("jpg", 50, (JPEG,)), PartEvidence("json", 50, heads)))

    detection = infer_sample_type(evidence)

    assert detection.reasons[1] == "caption: json[caption] is in 98 % of samples, text (49 of 50 read)"


def test_images_of_different_formats_become_alternatives() -> None:
    detection = infer_sample_type(make_evidence(png=(40, PNG), jpg=(60, JPEG), txt=b"a dog"))

    assert detection.field_map == {"image": "jpg,png", "caption": "txt"}
    assert detection.confidence >= 0.9


def test_unread_rare_extensions_become_alternatives() -> None:
    evidence = Evidence(100, (PartEvidence("jpg", 98, (JPEG,)), PartEvidence("JPG", 1), PartEvidence("jpeg", 1)))

    assert infer_sample_type(evidence).field_map == {"image": "jpg,JPG,jpeg"}


def test_image_is_part_without_dot_and_other_image_is_unused() -> None:
    detection = infer_sample_type(make_evidence(seg_png=PNG, jpg=JPEG, txt=b"a dog"))

    assert detection.field_map == {"image": "jpg", "caption": "txt"}
    assert "not used: seg.png (image/png)" in detection.reasons
    assert detection.confidence < infer_sample_type(make_evidence(jpg=JPEG, txt=b"a dog")).confidence


def test_image_is_part_with_image_in_its_name() -> None:
    assert infer_sample_type(make_evidence(image_png=PNG, depth_png=PNG)).field_map == {"image": "image.png"}


def test_ambiguous_image_parts_are_not_guessed() -> None:
    detection = infer_sample_type(make_evidence(left_jpg=JPEG, right_jpg=JPEG))

    assert reason_against(detection, "ImageSample") == (
        "2 image parts, and only one can be the field: left.jpg, right.jpg"
    )


def test_part_of_too_few_samples_is_ignored() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, txt=(40, b"a dog")))

    assert detection.sample_type == "ImageSample"
    assert reason_against(detection, "CaptioningSample") == "no caption: txt is in 40 % of samples only"


@pytest.mark.parametrize(
    ("evidence", "source", "seen"),
    [
        (make_evidence(jpg=JPEG, txt=(75, b"a dog")), "txt", "content is text (24 of 24 read)"),
        (make_evidence(jpg=JPEG, json=(75, {"caption": "x"})), "json[caption]", "text (24 of 24 read)"),
    ],
)
def test_captions_of_most_images_make_uncertain_captioning_sample(evidence: Evidence, source: str, seen: str) -> None:
    detection = infer_sample_type(evidence)

    assert (detection.sample_type, detection.field_map["caption"]) == ("CaptioningSample", source)
    assert (detection.is_sure, detection.optional) == (False, ())
    assert f"caption: {source} is in 75 % of samples, {seen}; the loader skips the others" in detection.reasons


def test_text_of_most_videos_is_optional() -> None:
    detection = infer_sample_type(make_evidence(mp4=MP4, txt=(75, b"a dog")))
    assert (detection.sample_type, detection.optional, detection.is_sure) == ("VideoSample", ("text",), True)


def test_detection_prefers_label_of_all_images_to_captions_of_some() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, cls=b"17", json=(75, {"caption": "x"})))
    assert detection.sample_type == "ImageClassificationSample"


def test_reasons_count_empty_texts() -> None:
    parts = (
        PartEvidence("jpg", 4, (JPEG,) * 4),
        PartEvidence("json", 4, (b'{"caption": "x"}',) * 3 + (b'{"caption": ""}',)),
    )
    (reason,) = (each for each in infer_sample_type(Evidence(4, parts)).reasons if each.startswith("caption"))
    assert reason.endswith("text (4 of 4 read, 1 of them empty)")


def test_part_missing_in_few_samples_is_used() -> None:
    assert infer_sample_type(make_evidence(jpg=JPEG, txt=(96, b"a dog"))).sample_type == "CaptioningSample"


def test_second_fitting_type_lowers_confidence_and_is_named() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, cls=b"3", txt=b"a dog"))

    assert detection.sample_type == "CaptioningSample"
    assert "ImageClassificationSample would fit nearly as well" in detection.reasons
    assert detection.confidence < 0.7


def labelled_evidence(cls: str, *texts: str) -> Evidence:
    """Evidence of 100 samples, of which those with these labels and texts were read."""
    parts = {
        "jpg": (JPEG,) * len(texts),
        "cls": tuple(each.encode() for each in cls),
        "txt": tuple(each.encode() for each in texts),
    }
    return Evidence(100, tuple(PartEvidence(name, 100, heads) for name, heads in parts.items()))


def test_text_that_repeats_per_label_is_class_name() -> None:
    detection = infer_sample_type(labelled_evidence("0011", "cat", "cat", "dog\n", "dog"))

    assert (detection.sample_type, detection.is_sure) == ("ImageClassificationSample", True)
    assert detection.field_map == {"image": "jpg", "label": "cls", "label_name": "txt"}
    assert any(reason.endswith("one for each number in cls") for reason in detection.reasons)


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
def test_text_that_does_not_follow_label_is_caption(cls: str, texts: tuple[str, ...]) -> None:
    detection = infer_sample_type(labelled_evidence(cls, *texts))

    assert (detection.sample_type, detection.is_sure) == ("CaptioningSample", False)


def test_text_part_outweighs_json_label() -> None:
    detection = infer_sample_type(
        make_evidence(jpg=JPEG, txt=b"a dog", json=b'{"label": 3, "class": "dog", "source": "dog.jpg"}')
    )

    assert (detection.sample_type, detection.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "txt"})
    assert (detection.is_sure, detection.unread) == (True, ())


def test_ambiguous_text_parts_are_not_guessed() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, de=b"ein Hund", en=b"a dog"))

    assert detection.sample_type == "ImageSample"
    assert reason_against(detection, "CaptioningSample") == (
        "no caption: 2 text parts, none with a matching name: de, en"
    )


def test_content_overrides_wrong_extension_with_reason() -> None:
    detection = infer_sample_type(make_evidence(jpg=PNG, txt={"caption": "x"}))

    assert detection.field_map == {"image": "jpg", "caption": "txt[caption]"}
    assert "jpg: the extension does not match the content, which is PNG (24 of 24)" in detection.reasons
    assert "txt: the extension does not match the content, which is a JSON object (24 of 24)" in detection.reasons


def test_prompt_without_answer_is_caption() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, json={"prompt": "a dog"}))

    assert reason_against(detection, "VQASample") == "json[prompt] may be a caption: the samples have no answers"


CONTENTS = st.sampled_from([JPEG, PNG, WAV, MP4, b"a dog", b"17", b"", b"\0\1\2", b'{"caption": "x", "label": 3}'])
NAMES = st.sampled_from(["jpg", "png", "seg.png", "txt", "json", "cls", "mp4", "wav", "question.txt", "x"])


@settings(max_examples=200)
@given(st.dictionaries(NAMES, st.tuples(st.integers(0, 20), st.lists(CONTENTS, max_size=3)), max_size=6))
def test_inferred_field_map_is_always_valid(parts: dict[str, tuple[int, list[bytes]]]) -> None:
    evidence = Evidence(20, tuple(PartEvidence(name, n, tuple(heads)) for name, (n, heads) in parts.items()))

    detection = infer_sample_type(evidence)

    assert infer_sample_type(evidence) == detection
    assert 0 <= detection.confidence <= 1
    validate_field_map(detection.sample_type, detection.field_map, [name for name, (n, _) in parts.items() if n])
    assert len({detection.sample_type, *(rejected.sample_type for rejected in detection.rejected)}) >= 12


@pytest.mark.parametrize(
    ("evidence", "is_sure", "unused"),
    [
        (make_evidence(jpg=JPEG, txt=b"a dog"), True, ()),
        (make_evidence(mp4=MP4, wav=WAV, txt=b"hi"), True, ()),
        (make_evidence(jpg=JPEG, seg_png=PNG, txt=b"a dog"), False, ("seg.png",)),
        (make_evidence(mp4=MP4, jpg=JPEG, txt=b"hi"), False, ("jpg",)),
        (
            make_evidence(txt=b"a dog", json={"question": "what?", "caption": "x"}, notes_txt=b"more"),
            False,
            ("notes.txt",),
        ),
        (make_evidence(jpg=JPEG, json={"regions": [{"shape_attributes": {}}], "size": 7}), False, ("json[regions]",)),
        (make_evidence(png=PNG, json={"ground_truth": '{"gt_parse": {}}'}), False, ("json[ground_truth]",)),
        (make_evidence(jpg=JPEG, json={"caption": "a dog", "objects": [{"id": 1}]}), True, ()),
        (make_evidence(npy=NUMPY), True, ()),
        (
            make_evidence(jpg=JPEG, txt=b"a dog", json={"url": "x"}, t5_npy=NUMPY, vae_npy=NUMPY),
            False,
            ("t5.npy", "vae.npy"),
        ),
    ],
)
def test_detection_is_sure_if_confident_and_all_media_are_used(
    evidence: Evidence, is_sure: bool, unused: tuple[str, ...]
) -> None:
    detection = infer_sample_type(evidence)

    assert (detection.is_sure, detection.unread) == (is_sure, unused)


def test_conversation_media_missing_in_some_samples_are_optional() -> None:
    detection = infer_sample_type(make_evidence(**{"0_jpg": (60, JPEG)}, json={"messages": IMAGE_TURNS}))

    assert (detection.field_map, detection.optional) == ({"messages": "json", "images": "*"}, ("images",))


def test_conversation_type_is_rejected_without_media_parts() -> None:
    detection = infer_sample_type(make_evidence(json={"messages": IMAGE_TURNS}))

    assert detection.sample_type == CRUDE
    assert (
        reason_against(detection, "ConversationSample")
        == "the turns refer to media, but the samples have no media parts"
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
def test_jsonl_is_text_or_conversation_only_without_media(line: dict[str, Any], sample_type: str) -> None:
    assert infer_sample_type(make_evidence(json=line), is_jsonl=True).sample_type == sample_type


def test_detection_type_accepts_images_without_boxes() -> None:
    heads = (json.dumps(COCO).encode(), b'{"annotations": []}')
    evidence = Evidence(2, (PartEvidence("jpg", 2, (JPEG,)), PartEvidence("json", 2, heads)))

    assert infer_sample_type(evidence).field_map["boxes"] == "json[annotations][*][bbox]"


def test_rejected_types_are_sorted_by_fit() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, txt=b"a dog"))

    assert [rejected.sample_type for rejected in detection.rejected][:2] == ["ImageSample", "ImageClassificationSample"]
    assert detection.rejected[0].reason == "it would leave txt unused"
    last = [rejected.sample_type for rejected in detection.rejected][-7:]
    assert {"VideoSample", "AudioSample", "ConversationSample"} <= set(last)
    assert len(detection.rejected) == len(SAMPLE_TYPES) - 1


def test_integers_as_text_are_labels() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, json={"label": "3", "zip": "00123"}))

    assert (detection.sample_type, detection.field_map) == (
        "ImageClassificationSample",
        {"image": "jpg", "label": "json[label]"},
    )
    assert "label: json[label] is in 100 % of samples, whole numbers as text (24 of 24 read)" in detection.reasons


def test_booleans_are_labels() -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, json={"label": True}))

    assert (detection.sample_type, detection.field_map["label"]) == ("ImageClassificationSample", "json[label]")


@pytest.mark.parametrize(("sample_count", "sample_type"), [(60, "ImageClassificationSample"), (40, "ImageSample")])
def test_label_of_most_samples_is_optional_field(sample_count: int, sample_type: str) -> None:
    detection = infer_sample_type(make_evidence(jpg=JPEG, json=(sample_count, b'{"label": "3"}')))

    assert detection.sample_type == sample_type
    assert detection.optional == (("label",) if sample_count == 60 else ())
    assert any(reason.endswith("; None in the others") for reason in detection.reasons) == (sample_count == 60)


def test_text_that_is_mostly_numbers_is_no_caption() -> None:
    boxes = b"imagesource:GoogleEarth\ngsd:0.146\n8.0 0.0 20.0 3.0 22.0 18.0 4.0 15.0 plane 0\n"  # of DOTA
    detection = infer_sample_type(make_evidence(png=PNG, txt=boxes))

    assert (detection.sample_type, detection.is_sure) == ("ImageSample", False)
    prose = b"in 2 of 5 pictures, 3 dogs chase 12 sheep"
    assert infer_sample_type(make_evidence(png=PNG, txt=prose)).sample_type == "CaptioningSample"


def test_text_of_first_object_of_several_is_uncertain() -> None:
    heads = tuple(  # articles of SQuAD
        json.dumps(
            {"title": f"T{i}", "paragraphs": [{"context": f"Paragraph {j} is about {i}."} for j in "ab"]}
        ).encode()
        for i in range(24)
    )
    detection = infer_sample_type(Evidence(24, (PartEvidence("json", 24, heads),)))

    assert (detection.sample_type, detection.is_sure) == ("TextSample", False)
