"""SQL over a run: a user's sees the run, all of it and nothing else; the database only indexes."""

import json
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from read_formats import ONE_OF_EACH, real_run, run_at, run_of

import board
from board.api import OpenRun
from board.errors import ChoiceError, UnreadableError
from board.query.database import database_of
from board.query.open_run import OpenOptions, Run
from board.query.sql.user_sql import select

DOCS = Path(__file__).parents[3] / "docs"
BYTES_OF_A_ROLLOUT = ("offset", "size", "part")
WHOLE_TEXTS = ("prompt", "response")


def assert_rollouts_are_those_of_the_table(run: Run) -> None:
    result = select(run, "select * from rollouts order by step, index").to_pandas()
    table = run.rollouts.drop(columns=[*BYTES_OF_A_ROLLOUT, "file"], errors="ignore")
    assert len(result) == len(table) == run.rollout_count
    for name, values in table.items():
        if name in WHOLE_TEXTS:  # see test_whole_texts.py
            continue
        if pd.api.types.is_numeric_dtype(values):
            np.testing.assert_array_equal(
                pd.to_numeric(result[name]).to_numpy(float), values.to_numpy(float), str(name)
            )
        else:
            expected = values.astype(object).where(values.notna(), None).tolist()
            assert (
                result[name].astype(object).where(result[name].notna(), None).tolist() == expected
            )


@pytest.mark.parametrize("info", ONE_OF_EACH, ids=lambda info: info.name)
def test_rollouts_are_those_of_the_table_in_every_format(info):
    assert_rollouts_are_those_of_the_table(real_run(info))


def lines(*steps: int, **more: object) -> str:
    return "".join(
        json.dumps({"step": step, "response": f"{step}", "reward": step / 2, **more}) + "\n"
        for step in steps
    )


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on disk, in a folder whose name is a pattern, with a restart that wrote step 2 again; a file
    that is none of its own lies beside it.
    """
    root = tmp_path_factory.mktemp("indexed")
    (root / "secret.csv").write_text("secret\n1\n")
    folder = root / "a[b]*'c"
    folder.mkdir()
    (folder / "rank_1.jsonl").write_text(lines(1, 2, 3, word="x") + lines(2, 3, word=1.5))
    (folder / "rank_0.jsonl").write_text(lines(1, 2, 3))
    return run_at(folder, persist=True)


def test_an_index_on_disk_is_read_like_one_in_memory(indexed):
    assert indexed.index_folder is not None
    assert_rollouts_are_those_of_the_table(indexed)
    assert select(indexed, "select count(*) as n from rollouts").to_pylist() == [{"n": 6}]


def test_a_cap_of_rollouts_per_step_holds(indexed):
    capped = OpenOptions(max_per_step=1)
    assert_rollouts_are_those_of_the_table(run_at(indexed.info.path, capped, persist=True))


def test_what_is_not_a_number_is_null(tmp_path):
    rewards = (float("nan"), 2.0)
    run = run_of(tmp_path, [{"step": 1, "response": "a", "reward": r, "x": r} for r in rewards])
    result = select(run, "select avg(reward) as r, avg(x) as x from rollouts")
    assert result.to_pylist() == [{"r": 2.0, "x": 2.0}]


@pytest.fixture(scope="module")
def run() -> OpenRun:
    return board.open_run("grpo_arithmetic")


def test_steps_groups_and_prompts_agree_with_the_rollouts(run):
    pd.testing.assert_frame_equal(run.sql("select * from steps"), run.run.steps, check_dtype=False)
    rollouts = run.run.rollouts
    groups = run.sql("select * from groups order by step, group_id")
    expected = rollouts.groupby(["step", "group_id"], observed=True)["reward"]
    np.testing.assert_allclose(groups["reward_mean"], expected.mean())
    np.testing.assert_allclose(groups["reward_std"], expected.std(ddof=0), atol=1e-12)
    prompts = run.sql("select * from prompts order by prompt")
    assert prompts["rollouts"].tolist() == rollouts.groupby("prompt").size().tolist()
    assert prompts["rollouts"].sum() == len(rollouts)


FORBIDDEN = [
    "copy (select 1) to '{folder}/out.parquet' (format parquet)",
    "export database '{folder}/out'",
    "attach '{folder}/other.db'",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set allowed_directories = ['/']",
    "set memory_limit = '1TB'",
    "from read_csv('{folder}/secret.csv')",
    "from read_text('{folder}/root/../secret.csv')",
    "from glob('{folder}/*')",
    "from '{folder}/secret.csv'",
    "from 'https://example.org/a.csv'",
    "from indexed",  # a variable of this process
]
"""What the database refuses whoever asks."""
NO_QUESTIONS = [
    "copy rollouts to '{folder}/out.csv'",
    "reset memory_limit",
    "pragma database_list",
    "call duckdb_settings()",
    "create table t as select 1",
    "drop view rollouts",
    "insert into rollouts values (1)",
    "delete from rollouts",
    "checkpoint",
    "select 1; drop view rollouts",
    "explain analyze select 1",
    "from read_blob('{folder}/secret.csv')",
    "from read_json('{folder}/secret.csv')",
    "from read_parquet('{folder}/*.parquet')",
    "from sniff_csv('{folder}/secret.csv')",
    "from query('copy (select 1) to ''{folder}/out.csv''')",
    "from statement",
    "",
]
"""What is refused of a user besides."""


@pytest.mark.parametrize("statement", [*FORBIDDEN, *NO_QUESTIONS])
def test_a_statement_that_writes_or_reads_something_else_is_refused(indexed, statement):
    folder = indexed.info.path.parent
    before = sorted(folder.rglob("*"))
    with pytest.raises(ChoiceError):
        select(indexed, statement.format(folder=folder))
    if statement in FORBIDDEN:
        database = database_of(indexed.info.root, indexed.index_folder)
        with database.cursor() as cursor, pytest.raises(duckdb.Error):
            cursor.execute(statement.format(folder=folder))
    assert sorted(folder.rglob("*")) == before


def test_runs_of_one_root_share_a_database_and_its_limit_of_memory(indexed, tmp_path):
    database = database_of(indexed.info.root)
    assert database_of(indexed.info.root, indexed.index_folder) is database
    assert database_of(tmp_path) is not database


def test_an_index_that_a_link_leads_to_is_read(indexed, tmp_path):
    other = tmp_path / "links"
    other.mkdir()
    (other / "run").symlink_to(indexed.info.path, target_is_directory=True)
    folder = other / "run" / ".rollout-board" / "index"
    link = database_of(other, folder).link("link", folder)
    (path,) = link.glob("rows-*.parquet")
    with database_of(other, folder).cursor() as cursor:
        assert cursor.sql(f"from '{link / path.name}'").fetchall()


def test_a_run_has_another_version_when_a_text_alone_changed(tmp_path):
    texts = ({"step": 1, "response": text, "reward": 1.0} for text in "ab")
    one, other = (run_of(tmp_path, [row], persist=True) for row in texts)
    assert other.steps.equals(one.steps)
    assert other.version != one.version


def test_a_statement_that_takes_too_long_is_stopped(indexed):
    with pytest.raises(ChoiceError, match=r"more than 0\.2 seconds"):
        select(indexed, "select count(*) from range(10_000_000_000_000)", timeout=0.2)


def test_an_unknown_column_is_named_with_those_that_come_close(indexed):
    with pytest.raises(ChoiceError, match=r"(?s)rewrad.*reward"):
        select(indexed, "select rewrad from rollouts")


def test_a_damaged_index_is_an_error_that_says_so(tmp_path):
    run = run_of(tmp_path, [{"step": 1, "response": "a"}], persist=True)
    for segment in run.index_folder.glob("rows-*.parquet"):
        segment.write_bytes(b"PAR1 damaged")
    with pytest.raises(UnreadableError, match="open the run again"):
        select(run, "select * from rollouts")


def test_the_columns_of_the_views_are_documented(run):
    documented = {
        view: dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.M))
        for view, table in re.findall(
            r"^\| `(\w+)` \| \|\n\|---\|---\|\n((?:\|.*\n)+)",
            (DOCS / "sql.md").read_text(encoding="utf-8"),
            re.M,
        )
    }
    assert {*documented} == {"rollouts", "steps", "groups", "prompts", "metrics", "problems"}
    for view in ("groups", "prompts", "metrics", "problems"):
        assert [*run.sql(f"select * from {view}")] == [*documented[view]]
    for view in ("rollouts", "steps"):
        stored = {
            re.sub(r"^.*(?=_(?:mean|std|n|se|groups|even|q00)$)", "M", name)
            for name in run.sql(f"from {view}")
        }
        assert {*documented[view]} <= stored | {*run.sql(f"from {view}")}


def test_the_examples_of_the_docs_run(run):
    text = (DOCS / "sql_examples.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sql\n(.*?)```", text, re.S)
    for statement in block.split(";\n"):
        if statement.strip():
            assert len(run.sql(statement))
