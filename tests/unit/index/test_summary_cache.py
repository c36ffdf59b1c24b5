import pytest

from board.index.summary_cache import SummaryCache


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "summaries.sqlite3"


def test_what_was_written_is_read_by_the_next_process(path):
    SummaryCache("v1", path).write("a", "1", b"first")
    SummaryCache("v1", path).write("a", "2", b"second")
    SummaryCache("v1", path).write("b", "1", b"other")
    assert SummaryCache("v1", path).read(["a", "b", "c"]) == {
        "a": ("2", b"second"),
        "b": ("1", b"other"),
    }


def test_many_runs_are_asked_for_at_once(path):
    cache = SummaryCache("v1", path)
    cache.write("1200", "s", b"d")
    assert cache.read([str(n) for n in range(1500)]) == {"1200": ("s", b"d")}


def test_a_cache_may_be_deleted_at_any_time(path):
    cache = SummaryCache("v1", path)
    cache.write("a", "1", b"first")
    path.unlink()
    assert cache.read(["a"]) == {}
    cache.write("a", "1", b"again")
    assert cache.read(["a"]) == {"a": ("1", b"again")}


def test_a_damaged_cache_is_made_anew(path):
    path.parent.mkdir()
    path.write_bytes(b"no database" * 500)
    cache = SummaryCache("v1", path)
    assert cache.read(["a"]) == {}
    cache.write("a", "1", b"d")
    assert cache.read(["a"]) == {"a": ("1", b"d")}


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = SummaryCache("v1", tmp_path / "file" / "summaries.sqlite3")
    cache.write("a", "1", b"d")
    assert cache.read(["a"]) == {}


def test_what_another_version_wrote_is_neither_read_nor_lost(path):
    SummaryCache("v1", path).write("a", "1", b"of v1")
    assert SummaryCache("v2", path).read(["a"]) == {}
    SummaryCache("v2", path).write("a", "1", b"of v2")
    assert SummaryCache("v1", path).read(["a"]) == {"a": ("1", b"of v1")}


def test_a_path_need_not_be_text(path):
    SummaryCache("v1", path).write("caf\udce9", "1", b"d")
    assert SummaryCache("v1", path).read(["caf\udce9"]) == {"caf\udce9": ("1", b"d")}
