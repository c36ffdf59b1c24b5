"""YAML is data alone, of bounded size, and says what it is where it is none."""

from pathlib import Path

import pytest
import yaml

from board.formats.io import yaml_files
from board.formats.io.lines import Line
from board.formats.io.yaml_files import YAML
from board.formats.sources import DamagedError, Row


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "0001.yaml"
    path.write_text(text, "utf-8")
    return path


def record(line: Line) -> dict:
    assert isinstance(line, Row)
    return dict(line.record)


def rows(path: Path) -> list[dict]:
    return [record(line) for line in YAML.lines(path)]


def test_values_are_those_of_yamls_safe_loader(tmp_path):
    text = """- {a: 1, b: 1.5, c: .inf, d: yes, e: ~, f: '1', g: "x\\u2028y", 7: seven, null: none}
- a: |
    two
    lines
  b: &shared [0x1f, 1_000, 2001-01-01, 1:30]
  c: *shared
- {}
"""
    path = write(tmp_path, text)
    expected = yaml.safe_load(text.replace("2001-01-01", "'2001-01-01'"))
    result = rows(path)
    expected[0]["7"] = expected[0].pop(7)
    expected[0]["None"] = expected[0].pop(None)
    assert result == expected
    assert [record(YAML.fetch(path, i, 1)) for i in range(3)] == result
    assert [record(line) for line in YAML.head(path)] == result[:1]


def test_entries_are_had_one_by_one(tmp_path):
    whole = YAML.lines(write(tmp_path, "- a: 1\n- b: [\n"))
    assert record(next(whole)) == {"a": 1}
    with pytest.raises(DamagedError, match="not valid YAML, or half-written"):
        next(whole)


def test_aliases_that_grow_without_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(yaml_files, "MOST_WRITTEN_OUT", 1 << 20)
    levels = [f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 20)]
    path = write(tmp_path, "\n".join(["- l0: &l0 [lol, lol]", *levels]))
    with pytest.raises(DamagedError, match="aliases written out it is larger than"):
        rows(path)
    entries = write(tmp_path, "\n".join([f"- &a {{a: {'x' * 1000}}}", *["- *a"] * 2000]))
    with pytest.raises(DamagedError, match="aliases written out"):
        rows(entries)


def test_a_document_that_has_only_begun_holds_nothing_yet(tmp_path):
    assert rows(write(tmp_path, "---\n")) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- &a [*a]", "refers to its own container"),
        ("- " + "[" * 100, "deeper than 64"),
        ("a: 1", "not a list"),
        ("- {[1]: 2}", "a key in it"),
        ("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("- a: \x00", "not valid YAML"),
    ],
)
def test_what_is_no_list_of_plain_values_is_refused_by_its_reason(tmp_path, text, reason):
    with pytest.raises(DamagedError, match=reason):
        rows(write(tmp_path, text))


def test_nothing_that_a_tag_names_is_run(tmp_path):
    made = tmp_path / "made"
    path = write(tmp_path, f"- a: !!python/object/apply:os.mkdir ['{made}']\n  b: !x y\n")
    assert rows(path) == [{"a": [str(made)], "b": "y"}]
    assert not made.exists()


def test_numbers_that_are_none_after_all_are_texts(tmp_path):
    long = "9" * 5000
    assert rows(write(tmp_path, f"- {{a: {long}, b: !!int x}}")) == [{"a": long, "b": "x"}]


def test_without_pyyaml_the_reason_says_what_to_install(tmp_path, monkeypatch):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(yaml_files.importlib, "import_module", missing)
    with pytest.raises(DamagedError, match=r"rollout-board\[yaml\]"):
        rows(write(tmp_path, "- a: 1"))
