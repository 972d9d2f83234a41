from __future__ import annotations

import pytest

from wdsctl.core.urls import (
    _secret_variable_names,
    is_chained,
    is_url,
    normalize_root,
    protocol,
    redact_secrets,
    url_identity,
)


@pytest.mark.parametrize("root", ["s3://bucket/shards", "memory://x", "https://host/x", "GS://bucket"])
def test_is_url_accepts_schemes(root: str) -> None:
    assert is_url(root)


@pytest.mark.parametrize("root", ["shards", "/data/a:b", "./s3:/x", "C:x", "file:///data/shards", ""])
def test_paths_and_file_urls_are_not_urls(root: str) -> None:
    assert not is_url(root)


def test_normalize_root_converts_file_url_to_path() -> None:
    assert normalize_root("file:///data/my%20shards") == "/data/my shards"
    assert normalize_root("file://localhost/data") == "/data"


def test_normalize_root_strips_trailing_slash_of_urls_only() -> None:
    assert normalize_root("s3://bucket/shards//") == "s3://bucket/shards"
    assert normalize_root("shards/") == "shards/"
    assert normalize_root("s3://") == "s3://"
    assert protocol("S3://bucket") == "s3"


def test_is_chained_recognizes_url_chains() -> None:
    assert is_chained("simplecache::s3://bucket/x")
    assert not is_chained("s3://bucket/x::y")
    assert not is_chained("a::b")


def test_redact_secrets_removes_user_password_and_query() -> None:
    assert redact_secrets("ftp://ann:secret@host/x") == "ftp://host/x"
    assert (
        redact_secrets("cannot get https://host/x.tar?X-Amz-Signature=abc, sorry")
        == "cannot get https://host/x.tar sorry"
    )
    assert redact_secrets("/data/a@b?c") == "/data/a@b?c"
    assert redact_secrets("s3://bucket/a@b/x.tar") == "s3://bucket/a@b/x.tar"


SECRET = "hunter2hunter2"  # noqa: S105 - of nobody


@pytest.mark.parametrize(
    "text",
    [
        f"ftp://ann:{SECRET}@host/x",
        f"ftp://ann:p@{SECRET}@host/x",
        f"ftp://ann:p/{SECRET}@host/x",
        f"ftp://ann:p@a/{SECRET}/b@host/x",
        f"ftp://ann:p?{SECRET}@host/x",
        f"ftp://ann:12/{SECRET}@host/x",
        f"ftp://ann:p%40{SECRET}@host/x",
        f"https://{SECRET}@host/x",
        f"https://host/x?X-Amz-Signature={SECRET}&X-Amz-Expires=1",
        f"https://host/x?a=1&sig={SECRET}",
        f"https://host/x?sig='{SECRET}",
        f"https://host/x#access_token={SECRET}",
        f"cannot get 'https://ann:{SECRET}@host/x'",
        f"Max retries exceeded with url: /x.tar?X-Amz-Signature={SECRET} (Caused by ...)",
        f"GET /x?st=1&sig={SECRET} failed",
        f"https%3A%2F%2Fann%3A{SECRET}%40host%2Fx",
        f"https%3A%2F%2Fhost%2Fx%3Fsig%3D{SECRET}",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f"Authorization: AWS4-HMAC-SHA256 Credential=a/b, Signature={SECRET}",
        f'{{"aws_secret_access_key": "{SECRET}"}}',
        f"storage_options={{'password': '{SECRET}', 'key': 1}}",
        f"AccountName=a;AccountKey={SECRET};EndpointSuffix=b",
        f"password={SECRET}",
        f"/data/http:/ann:{SECRET}@host/x?sig={SECRET}",
        f"/data/other:/ann:a@b/{SECRET}@host/x",
        f"simplecache::https://ann:{SECRET}@host/x",
    ],
)
def test_redact_secrets_hides_secrets(text: str) -> None:
    assert SECRET not in redact_secrets(text)
    assert redact_secrets(redact_secrets(text)) == redact_secrets(text)
    assert SECRET not in redact_secrets(f"one\n{text}\ntwo")
    assert SECRET not in redact_secrets(repr(text))


def test_redact_secrets_hides_values_of_secret_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY_OF_A_TEST", SECRET)
    monkeypatch.setenv("A_TOKEN", "/run/secrets/token")
    _secret_variable_names.cache_clear()
    assert redact_secrets(f"the key {SECRET} is refused") == "the key *** is refused"
    assert redact_secrets("/run/secrets/token") == "/run/secrets/token"


@pytest.mark.parametrize(
    "text",
    [
        "http://host.org:8080/a@b/x.tar",
        "http://localhost:9000/a@b",
        "s3://bucket/data@view",
        "s3://bucket/a#1.tar",
        "https://host/100%25/x",
        "image=jpg,token=tok",
        "/data/a@b?c=d",
        "tokens: 12",
        "the key of the sample: a=b",
    ],
)
def test_redact_secrets_keeps_harmless_text(text: str) -> None:
    assert redact_secrets(text) == text


def test_url_identity_distinguishes_data_but_not_signatures() -> None:
    assert url_identity("ftp://a:b@h/x@1") != url_identity("ftp://a:b@g/x@1")
    assert url_identity("https://h/x?sig=1") == url_identity("https://h/x?sig=2")
