"""Footers of tables of an index: kept for files as they are, and for no more than there is room."""

from types import SimpleNamespace

from board.store.footers import Footers


def test_a_file_that_was_written_again_has_no_kept_footer(tmp_path):
    path, footers = tmp_path / "rows.parquet", Footers()
    path.write_bytes(b"one")
    key, kept = footers.of(str(path))
    assert kept is None
    footers.keep(key, footer := SimpleNamespace(chunks=6))
    assert footers.of(str(path))[1] is footer
    path.write_bytes(b"another")
    assert footers.of(str(path))[1] is None


def test_footers_not_used_for_longest_make_room(tmp_path):
    footers = Footers(most=10)
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(b"x")
        key, _ = footers.of(str(path))
        footers.keep(key, SimpleNamespace(chunks=4))
        footers.of(str(paths[0]))
    assert [footers.of(str(path))[1] is not None for path in paths] == [True, False, True]
