import pytest

from board.index.summary_cache import SummaryCache


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "summaries.sqlite3"


def test_what_was_written_is_read_by_the_next_process(path):
    SummaryCache(path).write("a", "1", b"first")
    SummaryCache(path).write("a", "2", b"second")
    SummaryCache(path).write("b", "1", b"other")
    assert SummaryCache(path).read(["a", "b", "c"]) == {"a": ("2", b"second"), "b": ("1", b"other")}


def test_many_runs_are_asked_for_at_once(path):
    cache = SummaryCache(path)
    cache.write("1200", "s", b"d")
    assert cache.read([str(n) for n in range(1500)]) == {"1200": ("s", b"d")}


def test_a_cache_may_be_deleted_at_any_time(path):
    cache = SummaryCache(path)
    cache.write("a", "1", b"first")
    path.unlink()
    assert cache.read(["a"]) == {}
    cache.write("a", "1", b"again")
    assert cache.read(["a"]) == {"a": ("1", b"again")}


def test_a_damaged_cache_is_made_anew(path):
    path.parent.mkdir()
    path.write_bytes(b"no database" * 500)
    cache = SummaryCache(path)
    assert cache.read(["a"]) == {}
    cache.write("a", "1", b"d")
    assert cache.read(["a"]) == {"a": ("1", b"d")}


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = SummaryCache(tmp_path / "file" / "summaries.sqlite3")
    cache.write("a", "1", b"d")
    assert cache.read(["a"]) == {}
