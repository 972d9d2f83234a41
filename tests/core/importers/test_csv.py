"""The importer csv: CSV and TSV tables."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import open_error, read_errors, read_samples
from tests.open_files import open_files
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import WdsctlError

FILES = {"a/1.jpg": b"one", "a/2.jpg": b"two!", "m/1.png": b"mask"}


def test_csv_file_columns_become_parts_and_other_columns_json(tmp_path: Path) -> None:
    table = b'image,caption,score\na/1.jpg,hello,1\na/2.jpg,"a, b\nand ""c""",2\n'
    root = a_folder(tmp_path, {**FILES, "t.csv": table})

    assert read_samples(f"{root}/t.csv") == {
        "a/1": {"jpg": b"one", "json": b'{"caption":"hello","score":1}'},
        "a/2": {"jpg": b"two!", "json": rb'{"caption":"a, b\nand \"c\"","score":2}'},
    }


def test_csv_names_parts_of_several_file_columns_by_column(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**FILES, "t.tsv": b"id\timage\tmask\nx.1\ta/1.jpg\tm/1.png\ny\ta/2.jpg\t\n"})

    assert read_samples(f"{root}/t.tsv", {"key": "id"}) == {
        "x_1": {"image.jpg": b"one", "mask.png": b"mask", "json": b'{"id":"x.1"}'},
        "y": {"image.jpg": b"two!", "json": b'{"id":"y"}'},
    }


def test_csv_columns_of_numbers_become_numbers(tmp_path: Path) -> None:
    names = "image,label,zip,score,ok,none"
    first = f"{names}\n" + "".join(f"a/1.jpg,{n},0{n},{n}.5,true,\n" for n in range(300)) + "a/2.jpg,,7,3,false,\n"
    second = f"{names}\na/1.jpg,5,6,7.25,true,\n"
    root = a_folder(tmp_path / "raw", {**FILES, "train.csv": first.encode(), "val.csv": second.encode()})

    report = convert([root], str(tmp_path / "made"), ConvertRequest(shard_samples=50, workers=2))

    assert {field.name: field.note for field in report.sources[0].fields if "json" in field.becomes} == {
        "label": "integer", "zip": "", "score": "number", "ok": "boolean", "none": "",
    }  # fmt: skip
    rows = [json.loads(parts["json"]) for parts in read_samples(str(tmp_path / "made")).values()]
    assert len(rows) == 302
    assert rows[299] == {"label": 299, "zip": "0299", "score": 299.5, "ok": True, "none": ""}
    assert rows[300] == {"label": None, "zip": "7", "score": 3, "ok": False, "none": ""}
    assert rows[301] == {"label": 5, "zip": "6", "score": 7.25, "ok": True, "none": ""}
    texts = read_samples(f"{root}/val.csv", {"types": "text"})
    assert json.loads(texts["a/1"]["json"])["label"] == "5"
    assert open_error(f"{root}/val.csv", {"types": "all"}).exit_code == 2


@pytest.mark.parametrize("head", [b"\xef\xbb\xbfimage;text\r\n", b"image;text\r\n"])
def test_csv_accepts_bom_crlf_semicolons_and_blank_lines(tmp_path: Path, head: bytes) -> None:
    root = a_folder(tmp_path, {**FILES, "t.csv": head + b"a/1.jpg;x\r\n\r\na/2.jpg;y"})

    assert read_samples(f"{root}/t.csv", {"text": "text"}) == {
        "a/1": {"jpg": b"one", "txt": b"x"},
        "a/2": {"jpg": b"two!", "txt": b"y"},
    }


def test_csv_reports_bad_rows_by_line_and_reads_others(tmp_path: Path) -> None:
    rows = (b"image,t", b"a/1.jpg,x", b"a/1.jpg", b'"a/2.jpg"x,y', b"a/1.jpg,\0", b"a/9.jpg,z", b"../x.jpg,z",
            b"/etc/x.jpg,z", b"a/2.jpg,z", b'a/1.jpg,"never closed', b"a/2.jpg,z")  # fmt: skip
    root = a_folder(tmp_path, {**FILES, "t.csv": b"\n".join(rows)})

    wrong = read_errors(f"{root}/t.csv")

    assert {place: error.code for place, error in wrong.items()} == {
        1: "WDS232", 2: "WDS232", 3: "WDS232", 4: "WDS231", 5: "WDS230", 6: "WDS230", 8: "WDS232",
    }  # fmt: skip
    assert wrong[1].where == f"{root}/t.csv:3"
    assert wrong[8].where == f"{root}/t.csv:10"
    assert all(error.hint for error in wrong.values())


def test_csv_refuses_links_outside_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    root = a_folder(tmp_path / "data", {"t.csv": b"image\nlink.jpg\nfolder/secret.jpg\nin.jpg\n", "x.jpg": b"x"})
    (tmp_path / "data" / "link.jpg").symlink_to("../secret.jpg")
    (tmp_path / "data" / "folder").symlink_to(tmp_path)
    (tmp_path / "data" / "in.jpg").symlink_to("x.jpg")

    assert {place: error.code for place, error in read_errors(f"{root}/t.csv").items()} == {0: "WDS230", 1: "WDS230"}


@pytest.mark.parametrize(
    ("end", "lines"), [('3\t"c" d\n4\te\n', "3 lines, to line 4"), ("3\tc\n4\te\n", "4 lines, to line 5")]
)
def test_csv_error_names_lines_that_open_quote_takes_in(tmp_path: Path, end: str, lines: str) -> None:
    root = a_folder(tmp_path, {"t.tsv": f'id\ttext\n1\t"a\n2\tb\n{end}'.encode()})

    errors = read_errors(f"{root}/t.tsv")

    assert [error.code for error in errors.values()] == ["WDS232"]
    assert lines in errors[0].message


def test_csv_reads_field_of_megabytes(tmp_path: Path) -> None:
    text = "x" * 3_000_000
    root = a_folder(tmp_path, {"t.csv": f"id,text\n1,{text}\n2,y\n".encode()})

    found = read_samples(f"{root}/t.csv", {"key": "id"})

    assert len(json.loads(found["1"]["json"])["text"]) == len(text)


def test_csv_finds_files_next_to_table_or_in_option_base(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b"image\n1.jpg\n", "images/1.jpg": b"one", "other/1.jpg": b"two"})

    assert read_samples(f"{root}/t.csv") == {"1": {"jpg": b"one"}}
    assert read_samples(f"{root}/t.csv", {"base": f"{root}/other"}) == {"1": {"jpg": b"two"}}


def test_csv_option_columns_names_columns_without_header(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**FILES, "t.csv": b"a/1.jpg,3\na/2.jpg,4\n"})

    assert read_samples(f"{root}/t.csv", {"columns": "image,label"})["a/2"] == {
        "jpg": b"two!",
        "json": b'{"label":4}',
    }


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv.gz"])
def test_csv_reads_gzip_compressed_tables(tmp_path: Path, name: str) -> None:
    tab = "\t" if "tsv" in name else ","
    root = a_folder(tmp_path, {**FILES, name: gzip.compress(f"image{tab}label\na/1.jpg{tab}3\n".encode())})

    for path in (root, f"{root}/{name}"):
        assert read_samples(path) == {"a/1": {"jpg": b"one", "json": b'{"label":3}'}}


@pytest.mark.parametrize(
    ("table", "options", "code"),
    [
        (b"", {}, "WDS003"),
        (b"a\0b\0\n\0", {}, "WDS120"),
        (b"\x1f\x8b\x08\0\0", {}, "WDS233"),
        (b"a,a\n1,2\n", {}, "WDS232"),
        (b'"a,b\n1,2\n', {}, "WDS232"),
        (b"a,b\n1,2\n", {"key": "c"}, "WDS001"),
        (b"a,b\n1,2\n", {"files": "c"}, "WDS001"),
        (b"a,b\n1,2\n", {"columns": "x,x"}, "WDS001"),
        (b"a,b\n1,2\n", {"kye": "a"}, "WDS001"),
        (b"a,b\n1,2\n", {"key": ":line"}, "WDS001"),
        (b"a,b\n1,2\n", {"delimiter": "xx"}, "WDS001"),
    ],
)
def test_csv_refuses_invalid_tables_and_options(
    tmp_path: Path, table: bytes, options: dict[str, str], code: str
) -> None:
    root = a_folder(tmp_path, {"t.csv": table})

    assert open_error(f"{root}/t.csv", options).code == code


def test_csv_reads_rows_at_random_after_first_pass(tmp_path: Path) -> None:
    from wdsctl.core.importers.csv import IMPORTER

    rows = "".join(f'{i},"line\n{i}"\n' for i in range(2000))
    root = a_folder(tmp_path, {"t.csv": f"id,text\n{rows}".encode()})
    with IMPORTER.open(f"{root}/t.csv", {"key": "id"}) as source:
        assert sum(1 for _ in source.entries()) == 2000

        for place in (1999, 3, 512, 511, 1024, 1025, 0):
            assert json.loads(source.read(place)[0].data) == {"id": str(place), "text": f"line\n{place}"}


@pytest.mark.slow
def test_csv_memory_is_independent_of_row_count(tmp_path: Path) -> None:
    from wdsctl.core.importers.csv import IMPORTER

    def peak(rows: int) -> int:
        path = tmp_path / f"{rows}.csv"
        path.write_text("id,text\n" + "".join(f"{i},some words\n" for i in range(rows)))
        with IMPORTER.open(str(path), {"key": "id"}) as source:
            tracemalloc.start()
            assert sum(1 for _ in source.entries()) == rows
            peak_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return peak_bytes

    assert peak(50_000) < peak(5_000) + 100_000


def test_csv_refuses_header_that_is_not_utf_8(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": "läbel,n\na,1\n".encode("latin-1")})

    error = open_error(f"{root}/t.csv")

    assert (error.code, error.where.rpartition("/")[2]) == ("WDS124", "t.csv:1")


def test_csv_hints_at_command_for_lone_carriage_returns(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b"a,b\r1,2\r"})

    error = open_error(f"{root}/t.csv")

    assert "carriage return" in error.message
    assert "tr '\\r' '\\n'" in error.hint


def test_csv_reports_unclosed_quote(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b'a,b\n1,"2\n3,4\n'})

    (error,) = read_errors(f"{root}/t.csv").values()

    assert "it opens a quote that the file never closes" in error.message


def test_quotes_of_tsv_that_join_rows_are_fault_unless_option_decides(tmp_path: Path) -> None:
    rows = 'file\ttext\tn\n0.jpg\t"one\t0\n1.jpg\ttwo"\t1\n2.jpg\t"three ""3""\nlines"\t2\n'
    root = a_folder(tmp_path, {"t.tsv": rows.encode(), **{f"{i}.jpg": b"x" for i in range(3)}})

    assert {place: error.code for place, error in read_errors(f"{root}/t.tsv").items()} == {0: "WDS232"}
    texts = [
        parts["txt"].decode() for parts in read_samples(f"{root}/t.tsv", {"quotes": "yes", "text": "text"}).values()
    ]
    assert texts == ["one\t0\n1.jpg\ttwo", 'three "3"\nlines']
    plain = read_errors(f"{root}/t.tsv", {"quotes": "no"})
    assert sorted(plain) == [2, 3]


def test_csv_reads_absolute_paths_below_option_base(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"pictures/1.jpg": b"x", "pictures/2.jpg": b"y"})
    (tmp_path / "labels").mkdir()
    rows = tmp_path / "labels" / "rows.csv"
    rows.write_text(f"file,text\n{root}/pictures/1.jpg,one\n../pictures/2.jpg,two\n")

    error = open_error(str(rows))
    assert error.code == "WDS230"
    assert f"-O base={root}`" in error.hint
    found = read_samples(str(rows), {"base": root})
    assert {key: parts["jpg"] for key, parts in found.items()} == {"pictures/1": b"x", "pictures/2": b"y"}


@pytest.mark.timeout(120)
def test_csv_reads_many_columns_in_linear_time(tmp_path: Path) -> None:
    count = 50_000
    head = ",".join(f"c{i}" for i in range(count))
    root = a_folder(tmp_path, {"t.csv": f"{head}\n{','.join('1' * count)}\n".encode()})

    (parts,) = read_samples(f"{root}/t.csv").values()
    assert len(json.loads(parts["json"])) == count


ROWS = "image;caption\na/1.jpg;h\u00e9llo, w\u00f6rld\na/2.jpg;two\n"


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("utf-8-sig", {}),
        ("utf-16", {}),
        ("utf-16-le", {"encoding": "utf-16-le"}),
        ("utf-16-be", {"encoding": "utf-16-be"}),
        ("latin-1", {"encoding": "latin1"}),
        ("cp1252", {"encoding": "cp1252"}),
    ],
)
def test_csv_detects_encoding_by_bom_or_option(tmp_path: Path, encoding: str, options: dict[str, str]) -> None:
    root = a_folder(tmp_path, {**FILES, "t.csv": ROWS.encode(encoding)})

    assert read_samples(f"{root}/t.csv", options) == {
        "a/1": {"jpg": b"one", "json": '{"caption":"h\u00e9llo, w\u00f6rld"}'.encode()},
        "a/2": {"jpg": b"two!", "json": b'{"caption":"two"}'},
    }


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_csv_utf_16_letters_with_newline_byte_do_not_end_line(tmp_path: Path, order: str) -> None:
    words = ["\u0a0a\u010a\u0a00", "\u0a0d", "x"]
    mark = b"\xff\xfe" if order == "utf-16-le" else b"\xfe\xff"
    rows = "id,text\n" + "".join(f"{i},{word}\n" for i, word in enumerate(words))
    root = a_folder(tmp_path, {"t.csv": mark + rows.encode(order)})

    found = read_samples(f"{root}/t.csv", {"key": "id"})

    assert [json.loads(parts["json"])["text"] for parts in found.values()] == words


@pytest.mark.parametrize("name", ["t.csv", "in/t.csv"])
def test_csv_refuses_unknown_encoding_with_line_and_commands(tmp_path: Path, name: str) -> None:
    root = a_folder(tmp_path, {**FILES, name: ROWS.replace("a/", "../a/" if "in" in name else "a/").encode("cp1252")})

    error = open_error(f"{root}/{name}", {"base": root})

    assert (error.code, error.where.rpartition("/")[2]) == ("WDS124", "t.csv:2")
    assert "-O encoding=latin1" in error.hint
    assert "iconv -f LATIN1 -t UTF-8" in error.hint


def test_csv_closes_file_in_other_encoding(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b"id,text\n1,x\n2,\xe9\n3,y\n"})
    error = open_error(f"{root}/t.csv")  # its traceback keeps the frames of the reader

    assert error.__traceback__ is not None
    assert open_files(root) == []


def test_csv_row_in_other_encoding_fails_alone(tmp_path: Path) -> None:
    rows = b"id,text\n" + b"1,x\n" * 150 + b"2,\xe9\n" + b"3,y\n"
    root = a_folder(tmp_path, {"t.csv": rows})

    assert {place: error.code for place, error in read_errors(f"{root}/t.csv").items()} == {150: "WDS124"}


def test_csv_refuses_bytes_invalid_in_given_encoding(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b"id,text\n1,\x81\n", "u.csv": "id,text\n1,x\n".encode("utf-16")[:-1]})

    assert open_error(f"{root}/t.csv", {"encoding": "cp1252"}).code == "WDS124"
    assert open_error(f"{root}/u.csv").code == "WDS124"
    assert open_error(f"{root}/t.csv", {"encoding": "utf-7"}).exit_code == 2


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (b"sep=;\r\nid;text\r\n1;a,b\r\n", {"id": 1, "text": "a,b"}),
        (b'\xef\xbb\xbf"sep=|"\nid|text\n1|a;b\n', {"id": 1, "text": "a;b"}),
        ("sep=\t\nid\ttext\n1\ta b\n".encode("utf-16"), {"id": 1, "text": "a b"}),
        (b"id;a, b\n1;c\n2;d\n", {"id": 1, "a, b": "c"}),
        (b'id|text\n1|"a\nb"\n2|c\n', {"id": 1, "text": "a\nb"}),
    ],
)
def test_csv_delimiter_is_stated_or_detected_from_rows(tmp_path: Path, table: bytes, values: dict[str, str]) -> None:
    root = a_folder(tmp_path, {"t.csv": table})

    assert json.loads(next(iter(read_samples(f"{root}/t.csv").values()))["json"]) == values


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (b"a/1.jpg,3\na/2.jpg,4\n", "file,column_2"),
        (b"3,a/1.jpg\n4,a/2.jpg\n", "column_1,file"),
        (b"a/1.jpg,m/1.png\n", "file_1,file_2"),
        (b"0.5,7\n1.5,8\n", "column_1,column_2"),
        (b"http://x/y,7\n", "column_1,column_2"),
    ],
)
@pytest.mark.parametrize("is_folder", [True, False])
def test_csv_refuses_data_row_as_header_with_command(
    tmp_path: Path, table: bytes, columns: str, *, is_folder: bool
) -> None:
    root = a_folder(tmp_path, {**(FILES if b"a/" in table else {}), "t.csv": table})
    source = root if is_folder else f"{root}/t.csv"

    error = open_error(source)

    assert error.code == "WDS243"
    assert f"`wdsctl convert {root}/t.csv DEST -O columns={columns}`" in error.hint
    assert len(read_samples(source, {"columns": columns}, form="csv")) == table.count(b"\n")
    assert len(read_samples(source, {"header": "yes"}, form="csv")) == table.count(b"\n") - 1


def test_csv_accepts_pandas_column_numbers_as_header(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b"0,1\nx,y\n"})

    assert read_samples(f"{root}/t.csv") == {"000000000": {"json": b'{"0":"x","1":"y"}'}}


def test_csv_header_without_rows_has_no_samples(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b"id,text\n", "u.csv": b"sep=;\n"})

    assert read_samples(f"{root}/t.csv") == {}
    assert open_error(f"{root}/u.csv").code == "WDS003"
    with pytest.raises(WdsctlError) as error:
        convert([f"{root}/t.csv"], str(tmp_path / "out"))
    assert error.value.code == "WDS003"


def test_csv_nul_byte_fails_only_its_row(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b"id,text\n" + b"1,some text that is long enough\n" * 9 + b"2,a\0b\n3,x\n"})

    (error,) = read_errors(f"{root}/t.csv").values()

    assert (error.code, error.where) == ("WDS232", f"{root}/t.csv:11")


@pytest.mark.parametrize(
    ("rows", "is_header"),
    [
        (["This is one.\tDas ist eins.", "This is two.\tDas ist zwei."], False),
        (["\u3053\u308c\u306f\u732b\u3067\u3059\u3002\t5", "\u3053\u308c\u306f\u72ac\u3067\u3059\u3002\t6"], False),
        (["a man rides a brown horse on the beach\t0.5", "two dogs run after a ball in a park\t0.7"], False),
        (["Timestamp\tHow do you feel today?", "2026\tI feel quite well."], True),
        (["How do you feel today?", "well"], True),
        (["Image Index\tFinding Labels", "one\tNo finding."], True),
    ],
)
def test_first_row_of_sentences_is_no_header(tmp_path: Path, rows: list[str], is_header: bool) -> None:
    source = a_folder(tmp_path, {"a.tsv": "\n".join([*rows, *rows[1:] * 3]).encode()})

    if is_header:
        assert len(read_samples(source, form="csv")) == 4
    else:
        assert open_error(source, form="csv").code == "WDS243"
