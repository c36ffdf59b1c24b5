"""A mapping file tells which key is which, and can do no more than that."""

import json
import re
from pathlib import PurePath

import pytest

from board.errors import BoardError, RecordError
from board.formats.base import Head, LineContext, layout_match
from board.formats.mapping import value_at
from board.formats.mapping_files import mapping_reader
from board.formats.path_patterns import path_pattern
from board.index.discovery.mappings import read_mapping

KEYS = '[keys]\nresponse = "out"\nstep = "meta.step"\n'


def read(text, line, path="log.jsonl"):
    reader = mapping_reader(text)
    at = LineContext(PurePath(path), layout=reader.layout)
    return [reader.record(row, at) for row in reader.rows(line, at)]


def test_dotted_paths_reach_into_objects_and_names_with_dots_come_first():
    line = {"a": {"b": {"c": 1}}, "a.b": {"c": 2}, "x.y": 3}
    assert value_at({"a": {"b": {"c": 1}}}, "a.b.c") == 1
    assert value_at(line, "x.y") == 3
    assert value_at(line, "a.b") == {"c": 2}
    assert value_at({"a": [1]}, "a.b") is None
    assert value_at({}, "a.b") is None


def test_keys_that_are_not_named_become_columns_or_are_the_records_own():
    line = {"out": "r", "meta": {"step": 4}, "reward": 0.5, "temperature": 0.7, "step": 99}
    (record,) = read(KEYS, line)
    assert (record.step, record.texts["response"], record.scores["reward"]) == (4, "r", 0.5)
    assert record.extras["temperature"] == 0.7
    assert record.extras["logged.step"] == 99


def test_a_key_of_the_records_own_name_gives_way_to_the_one_that_is_mapped():
    text = '[keys]\nresponse = "out"\nreward = "scores.total"\n'
    (record,) = read(text, {"out": "r", "reward": 9.0, "scores": {"total": 1.0}})
    assert record.scores["reward"] == 1.0
    assert record.extras["logged.reward"] == 9.0


def test_a_missing_step_is_an_error_where_the_mapping_names_one_and_a_note_where_not():
    with pytest.raises(RecordError, match="step is missing"):
        read(KEYS, {"out": "r"})
    (record,) = read('[keys]\nresponse = "out"\n', {"out": "r"})
    assert record.step == 0
    assert [remark.reason for remark in record.remarks] == ["the log has no step"]


def test_step_and_split_come_from_the_path():
    text = "files = 'it_(?P<step>\\d+)/(?P<split>train|val)\\.jsonl'\n[keys]\nresponse = \"out\"\n"
    (record,) = read(text, {"out": "r"}, "/runs/a/it_012/val.jsonl")
    assert (record.step, record.ids["split"]) == (12, "val")


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("s", {"step": 1, "s": [{"out": "a"}, {"out": "b"}]}),
        ("s.t", {"step": 1, "s": {"t": [{"out": "a"}, {"out": "b"}]}}),
        ("s", {"step": 1, "s": {"out": ["a", "b"]}}),
        (".", {"step": 1, "out": ["a", "b"]}),
    ],
)
def test_rows_are_objects_or_columns(rows, line):
    result = read(f'rows = "{rows}"\n[keys]\nresponse = "out"\n', line)
    assert [(record.step, record.texts["response"]) for record in result] == [(1, "a"), (1, "b")]


@pytest.mark.parametrize("value", [3, "text", [1, 2], [{"out": "a"}, None], None])
def test_what_holds_no_rows_is_named(value):
    with pytest.raises(RecordError, match=r"s is .* which holds no rows"):
        read('rows = "s"\n[keys]\nresponse = "out"\n', {"s": value})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[keys", "is not TOML"),
        ("[" * 8000, "is not TOML"),
        ("[keys]\n", "names nothing to show"),
        ("rows = 'x'", r"\[keys\]: is missing"),
        ('[keys]\nrespnse = "x"', "keys.respnse: .* did you mean response"),
        ("[keys]\nresponse = 3", "keys.response: is a number"),
        ('[keys]\nresponse = ""', "keys.response: is a text of 0"),
        (f'[keys]\nresponse = "{"a." * 200}"', "keys.response: is a text of 400"),
        ("[keys]\nreward = 'r'\nrewards = {a = 1}", "keys.rewards.a: is a number"),
        ("rows = 1\n[keys]\nreward = 'r'", "rows: is a number"),
        ("title = '<b>'\n[keys]\nreward = 'r'", "title: expected"),
        ("step = 'x'\n[keys]\nreward = 'r'", "'step': is not a key of a mapping file"),
        ("files = 3\n[keys]\nreward = 'r'", "files: is a number"),
        ("files = '(a+)+'\n[keys]\nreward = 'r'", "files: can't be read at"),
    ],
)
def test_a_mapping_that_can_not_be_used_is_refused_by_the_name_of_its_key(text, named):
    with pytest.raises(BoardError, match=named):
        mapping_reader(text)


REFUSED = (
    *("(a+)+b", "(?:a|a)*b", "(a*)*", r"(?P<step>\d+)\1", "(?=a)b", "(?i)a", "a++", "a{1,9999}"),
    *("[[:alpha:]]", "[z-a]", "(?P<other>a)", "(?P<step>a", "^a$", ".*.*.*x", r"\d+\d+\d+\d+x"),
    *("(?:a|a)" * 28 + "x", "a?" * 50 + "a" * 50, "a" * 201),
)


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_that_could_take_long_or_mean_something_else_are_refused(pattern):
    with pytest.raises(BoardError):
        path_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "path", "step"),
    [
        (r"step_(?P<step>\d+)\.jsonl", "/a/step_0012.jsonl", "0012"),
        (r"(?P<step>[0-9]+)/rank_\d+\.(?:jsonl|parquet)", "b/3/rank_10.parquet", "3"),
        (r"[^/]+/v\d+-(?P<step>\d+)-\w+\.jsonl", "r/v1-22-end.jsonl", "22"),
        (r"it(?P<step>\d{1,6})-[a-z_.]+\.jsonl", "it7-a_b.c.jsonl", "7"),
    ],
)
def test_patterns_match_the_end_of_a_path(pattern, path, step):
    match = layout_match(path_pattern(pattern), PurePath(path))
    assert match["step"] == step


def test_a_dot_matches_no_slash():
    assert re.fullmatch(path_pattern("a.b"), "axb")
    assert not re.fullmatch(path_pattern("a.b"), "a/b")


def test_the_costliest_pattern_comes_to_an_end_on_a_long_path():
    pattern = path_pattern("[/a]*[/a]*(?:a|a)(?:a|a)(?:a|a)(?:a|a)x")
    assert layout_match(pattern, PurePath("/a" * 400)) is None


def test_a_line_without_a_table_is_no_silent_loss():
    for rows, line in ((".", {"step": 1, "summary": 2}), ("s", {"step": 1, "s": {"n": 1}})):
        with pytest.raises(RecordError, match="holds no table"):
            read(f'rows = "{rows}"\n[keys]\nresponse = "out"\n', line)


def test_a_mapping_says_why_it_does_not_fit():
    reader = mapping_reader(KEYS)
    assert reader.why_not(Head(PurePath("a"), [{"text": 1}])) == "no record has 'out'"
    assert "'meta.step', which is to be the step" in reader.why_not(
        Head(PurePath("a"), [{"out": "r"}])
    )
    fits = Head(PurePath("a"), [{"summary": 1}, {"out": "r", "meta": {"step": 1}}])
    assert reader.recognises(fits)
    elsewhere = mapping_reader("files = 'x\\.jsonl'\n" + KEYS)
    assert elsewhere.why_not(Head(PurePath("y.jsonl"), fits.records)).startswith("its path")


def test_the_name_follows_from_the_text_alone():
    assert mapping_reader(KEYS).name == mapping_reader(KEYS).name
    assert mapping_reader(KEYS).name != mapping_reader(KEYS + "\n").name
    assert re.fullmatch("mapping:[0-9a-f]{12}", mapping_reader(KEYS).name)


def test_a_mapping_that_is_too_long_names_its_file(tmp_path):
    path = tmp_path / "rollout-board.toml"
    path.write_text("#" * 20_000)
    with pytest.raises(BoardError, match=r"rollout-board\.toml: is longer"):
        read_mapping(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BoardError, match=r"rollout-board\.toml: is not UTF-8"):
        read_mapping(path)


def test_a_key_that_a_line_does_not_have_is_named_and_null_is_not():
    text = '[keys]\nresponse = "out"\nreward = "scores.total"\ngroup_id = "task"\n'
    (record,) = read(text, {"out": "r", "scores": {"total": None}})
    assert [(remark.field, remark.reason, remark.severity) for remark in record.remarks] == [
        ("group_id", "task is not there, which the mapping file gives for group_id", "note"),
        ("step", "the log has no step", "note"),
    ]


def test_a_number_in_a_path_is_a_place_in_a_list():
    line = {"resps": [["a", "b"]], "1": "key"}
    assert value_at(line, "resps.0.0") == "a"
    assert value_at(line, "resps.0.-1") == "b"
    assert value_at(line, "resps.1.0") is None
    assert value_at(line, "1") == "key"


@pytest.mark.parametrize("columns", ['"names"', '["out", "mark"]'])
def test_rows_that_are_arrays_are_named_by_columns(columns):
    text = f'rows = "data"\ncolumns = {columns}\n[keys]\nresponse = "out"\nreward = "mark"\n'
    line = {"step": 1, "names": ["out", "mark"], "data": [["a", 1], ["b", 0]]}
    result = [(r.texts["response"], r.scores["reward"]) for r in read(text, line)]
    assert result == [("a", 1), ("b", 0)]
    with pytest.raises(RecordError, match="holds no rows"):
        read(text, line | {"data": [["a", 1, 2]]})


def test_of_parallel_lists_those_that_are_mapped_must_be_of_one_length():
    text = 'rows = "."\n[keys]\nresponse = "outs"\nreward = "marks"\n'
    line = {"step": 1, "outs": ["a", "b"], "marks": [1, 0], "tags": ["x", "y", "z"]}
    result = read(text, line)
    assert [(r.scores["reward"], r.extras["tags"]) for r in result] == [
        (1, ["x", "y", "z"]),
        (0, ["x", "y", "z"]),
    ]
    with pytest.raises(RecordError) as error:
        read(text, line | {"marks": [1, 0, 1]})
    assert "outs 2, marks 3" in error.value.hint


def test_words_are_numbers_where_the_mapping_says_so():
    text = '[keys]\nresponse = "out"\nreward = "mark"\n[values]\nreward = { C = 1, I = 0 }\n'
    lines = [{"step": 1, "out": "a", "mark": mark} for mark in ("C", "I", "?")]
    result = [read(text, line)[0] for line in lines]
    assert [record.scores.get("reward") for record in result] == [1, 0, None]
    assert [remark.field for remark in result[2].remarks] == ["reward"]


def test_messages_that_are_json_in_a_text_are_read():
    talk = json.dumps([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])
    (record,) = read('[keys]\nmessages = "chat"\n', {"step": 1, "chat": talk})
    assert (record.texts["prompt"], record.texts["response"]) == ("[user]\nq", "a")
    text = 'json = ["prompt"]\n[keys]\nprompt = "ask"\nresponse = "out"\n'
    (record,) = read(text, {"step": 1, "ask": talk, "out": "a"})
    assert record.texts["prompt"].startswith("[user]\nq")


def test_rollouts_of_a_line_are_a_group_where_the_mapping_says_so():
    text = 'rows = "s"\ngroup = "line"\n[keys]\nresponse = "out"\n'
    result = read(text, {"step": 1, "s": [{"out": "a"}, {"out": "b"}]})
    assert len({record.ids["group_id"] for record in result}) == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('columns = "c"\n[keys]\nresponse = "r"\n', "columns: .* there is no `rows`"),
        ('group = "step"\n[keys]\nresponse = "r"\n', "group: expected 'line'"),
        ('json = "prompt"\n[keys]\nresponse = "r"\n', "json: expected a list"),
        ('json = ["promt"]\n[keys]\nresponse = "r"\n', "did you mean prompt"),
        ("[keys]\nresponse = 'r'\n[values]\nreward = { C = 'x' }\n", "values.reward: expected"),
    ],
)
def test_an_option_that_can_not_be_used_is_named(text, named):
    with pytest.raises(BoardError, match=named):
        mapping_reader(text)


def test_a_mask_of_minus_100_and_token_ids_is_read_as_0_and_1_and_says_so():
    text = '[keys]\nresponse_ids = "ids"\nloss_mask = "labels"\n'
    (record,) = read(text, {"step": 1, "ids": [5, 6, 7], "labels": [-100, 6, 7]})
    assert record.tokens["loss_mask"].values().tolist() == [0, 1, 1]
    assert any("-100 and token ids" in remark.reason for remark in record.remarks)
