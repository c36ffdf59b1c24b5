"""Names of files: they say run, rollouts and what, and two contents never have one name."""

import re

from hypothesis import given
from hypothesis import strategies as st
from read_formats import run_of

from board.export.file_names import FileOf, file_of
from board.export.page_text import Redaction

TEXTS = st.text("ab/: _-.数ü\u202e\ud800…", max_size=90)
FILES = st.builds(FileOf, TEXTS, TEXTS, st.lists(TEXTS, max_size=5).map(tuple))


@given(st.lists(st.tuples(FILES, st.binary(max_size=4)), min_size=2, max_size=6))
def test_two_contents_never_have_one_name(files):
    named = {(file.name(".csv", content), content) for file, content in files}
    assert len({name for name, _ in named}) == len(named)


@given(FILES, st.binary(max_size=4), st.sampled_from([".html", ".parquet", ".jsonl"]))
def test_a_name_is_one_name_on_any_system(file, content, ending):
    name = file.name(ending, content)
    assert re.fullmatch(r"[\w.-]+", name)
    assert not name.startswith((".", "-"))
    assert len(name.encode()) <= 255
    assert re.search(rf"[0-9a-f]{{8}}\{ending}$", name)


@given(st.text("ab", min_size=101, max_size=140), st.text("cd", min_size=1, max_size=9))
def test_of_a_long_name_the_end_is_there(start, end):
    name = FileOf(f"{start}_{end}", "overview", ("step7",)).name(".html", b"")
    assert f"_{end}_step7_overview_" in name


def test_a_name_says_which_rollouts_it_is_of(tmp_path):
    rows = [
        {"step": step, "prompt": "p", "response": "r", "reward": 1.0, "env": env, "split": split}
        for step in (3, 4, 9)
        for env in ("math", "code")
        for split in ("train", "eval")
    ]
    run = run_of(tmp_path, rows)
    words = [
        (run, {}, "steps3-9_overview"),
        (run, {"step": 4}, "step4_overview"),
        (run.where(steps=(4, 9)), {}, "steps4-9_overview"),
        (run.where(steps=(3, 3), split="eval"), {}, "step3_split_eval_overview"),
        (run.where(envs=("math",)), {}, "steps3-9_math_overview"),
        (run.where("reward > 0"), {}, "steps3-9_filtered_overview"),
    ]
    for narrowed, step, said in words:
        name = file_of(narrowed, "overview", **step).name(".html")
        assert name == f"{run.info.name}_{said}.html"


def test_a_name_is_redacted_like_its_file():
    file = FileOf("secret-run", "rollout0", ("step1", "secret-env"))
    assert file.name(".html", redaction=Redaction.of(r"secret-\w+")) == (
        "redacted_step1_redacted_rollout0.html"
    )
