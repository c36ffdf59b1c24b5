"""Only a newline ends a line, and every byte of a file belongs to exactly one line."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from board.formats.io import lines
from board.formats.io.lines import Line, read_bytes, read_lines


@pytest.fixture
def file(tmp_path):
    def write(content: bytes):
        path = tmp_path / "log.jsonl"
        path.write_bytes(content)
        return path

    return write


def texts(path, *bounds) -> list[bytes | None]:
    return [line.text for line in read_lines(path, *bounds)]


def expected(content: bytes) -> list[Line]:
    """Cut by hand: the reference for every test below."""
    result: list[Line] = []
    offset = 0
    for piece in content.split(b"\n"):
        ended = offset + len(piece) < len(content)
        if piece or ended:
            result.append(Line(offset, len(piece) + ended, piece, ended))
        offset += len(piece) + 1
    return result


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u0085", "\r", "\x0b", "\x0c", "\x1c", "\0"])
def test_only_a_newline_ends_a_line(file, sign):
    content = f"one{sign}two\nthree".encode()
    assert texts(file(content)) == [f"one{sign}two".encode(), b"three"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text("ab\n\u2028", max_size=40), block=st.integers(1, 9))
def test_lines_do_not_depend_on_the_block_size(tmp_path, content, block):
    path = tmp_path / "log"
    path.write_bytes(content.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        assert list(read_lines(path)) == expected(content.encode())


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.text("ab\n", max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    block=st.integers(1, 16),
)
def test_ranges_hold_each_line_once_wherever_they_are_cut(tmp_path, content, cuts, block):
    path = tmp_path / "log"
    path.write_bytes(content.encode())
    result: list[Line] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        start = 0
        for end in [*sorted(min(cut, len(content)) for cut in cuts), len(content)]:
            part = list(read_lines(path, start, end))
            assert all(start <= line.offset < end for line in part)
            result += part
            if part:
                start = part[-1].offset + part[-1].size
    assert result == expected(content.encode())


@pytest.mark.parametrize("block", [1, 3, 64])
def test_a_line_that_is_too_long_is_passed_over_and_its_place_is_known(file, monkeypatch, block):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 8)
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    result = list(read_lines(file(b"ok\n" + b"x" * 20 + b"\nfine\n" + b"y" * 30)))
    assert [line.text for line in result] == [b"ok", None, b"fine", None]
    assert [line.offset for line in result] == [0, 3, 24, 29]
    assert [line.ended for line in result] == [True, True, True, False]


def test_a_line_of_exactly_the_limit_is_read(file, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 8)
    assert texts(file(b"1234567\n12345678\n")) == [b"1234567", None]


@pytest.mark.parametrize("sizes", [[1] * 31, [1] * 32, [1] * 33, [0, 3, 700] * 40, [3000] * 40])
@pytest.mark.parametrize("ended", [True, False])
def test_many_short_lines_end_where_a_few_long_ones_do(file, sizes, ended):
    content = b"\n".join(b"x" * size for size in sizes) + b"\n" * ended
    assert list(read_lines(file(content))) == expected(content)


def test_nothing_behind_the_range_is_read_where_a_line_ends_with_it(file, monkeypatch):
    path, read = file(b"one\ntwo\nthree\n" * 20_000), []
    own = os.preadv

    def noted(descriptor, buffers, offset):
        read.append(offset + sum(map(len, buffers)))
        return own(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", noted)
    assert texts(path, 4, 8) == [b"two"]
    assert max(read) == 8
    assert texts(path, 4, 7) == [b"two"]


def test_a_file_that_shrank_ends_early_and_without_an_error(file):
    assert texts(file(b"a\nb\n"), 0, 1000) == [b"a", b"b"]


def test_bytes_are_read_from_their_place(file):
    path = file(b"0123456789")
    assert read_bytes(path, 3, 4) == b"3456"
    assert read_bytes(path, 8, 10) == b"89"
    assert read_bytes(path, 50, 10) == b""


def test_a_pipe_is_an_error_and_never_a_hang(tmp_path):
    pipe = tmp_path / "x.jsonl"
    os.mkfifo(pipe)
    assert texts(pipe) == []
    with pytest.raises(OSError, match="seek"):
        list(read_lines(pipe, 0, 10))
    with pytest.raises(OSError, match="seek"):
        read_bytes(pipe, 0, 1)


def test_a_folder_is_an_error(tmp_path):
    with pytest.raises(OSError, match="directory"):
        list(read_lines(tmp_path, 0, 10))
