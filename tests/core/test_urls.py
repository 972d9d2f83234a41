from __future__ import annotations

import pytest

from wdsctl.core.urls import is_chained, is_url, plain, protocol, shown


@pytest.mark.parametrize("root", ["s3://bucket/shards", "memory://x", "https://host/x", "GS://bucket"])
def test_a_scheme_makes_a_url(root: str) -> None:
    assert is_url(root)


@pytest.mark.parametrize("root", ["shards", "/data/a:b", "./s3:/x", "C:x", "file:///data/shards", ""])
def test_paths_and_file_urls_are_paths(root: str) -> None:
    assert not is_url(root)


def test_a_file_url_is_the_path_it_names() -> None:
    assert plain("file:///data/my%20shards") == "/data/my shards"
    assert plain("file://localhost/data") == "/data"


def test_a_url_has_no_slash_at_its_end_and_a_path_is_left_alone() -> None:
    assert plain("s3://bucket/shards//") == "s3://bucket/shards"
    assert plain("shards/") == "shards/"
    assert plain("s3://") == "s3://"
    assert protocol("S3://bucket") == "s3"


def test_a_url_of_several_layers_is_told_apart() -> None:
    assert is_chained("simplecache::s3://bucket/x")
    assert not is_chained("s3://bucket/x::y")
    assert not is_chained("a::b")


def test_user_password_and_query_are_never_shown() -> None:
    assert shown("ftp://ann:secret@host/x") == "ftp://host/x"
    assert shown("cannot get https://host/x.tar?X-Amz-Signature=abc, sorry") == "cannot get https://host/x.tar sorry"
    assert shown("/data/a@b?c") == "/data/a@b?c"
    assert shown("s3://bucket/a@b/x.tar") == "s3://bucket/a@b/x.tar"
