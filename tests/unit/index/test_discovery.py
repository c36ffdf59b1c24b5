import os
from pathlib import Path

import pytest

from board.errors import NotFoundError, OutsideRootError
from board.index.discovery.discovered_runs import discover, natural_order, resolve_inside

ROLLOUT = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}
TOKENS = {"step": 1, "token_ids": [1, 2], "trainer_logprobs": [0, -0.5]}


def names(result) -> list[str]:
    return [run.name for run in result.runs]


def reasons(result) -> dict[str, str]:
    return {problem.path: problem.reason for problem in result.left_out}


def of_steps(form: str) -> tuple[list[str], str, dict[str, list[str]]]:
    """Folders of steps, which are one run."""
    paths = [f"{form.format(step)}/rank_0.jsonl" for step in (1, 2, 10)]
    return [f"run/{path}" for path in reversed(paths)], ".", {"run": paths}


LAYOUTS = {
    "every folder that holds logs is a run": (
        ["a/x.jsonl", "deep/er/b/x.jsonl", "deep/er/b/y.ndjson"],
        ".",
        {"a": ["x.jsonl"], "deep/er/b": ["x.jsonl", "y.ndjson"]},
    ),
    "a root that is one run": (["my-run/x.jsonl"], "my-run", {"my-run": ["x.jsonl"]}),
    "a root of one step": (["step_3/r.jsonl"], "step_3", {"step_3": ["r.jsonl"]}),
    "one log file": (["a/x.jsonl", "a/y.jsonl"], "a/x.jsonl", {"x.jsonl": ["x.jsonl"]}),
    "a folder with the name of a log": (["o.jsonl/x.jsonl"], ".", {"o.jsonl": ["x.jsonl"]}),
    "files in natural order": (
        ["rank_10.jsonl", "rank_2.jsonl", "rank_1.jsonl"],
        ".",
        {"root": ["rank_1.jsonl", "rank_2.jsonl", "rank_10.jsonl"]},
    ),
    "hidden folders and files": ([".git/x.jsonl", "run/.x.jsonl"], ".", {}),
    "an empty root": ([], ".", {}),
    **{form: of_steps(form) for form in ("step_{}", "global_step_{}", "step-{}", "step{}")},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_runs_are_found_with_their_files_in_order(tmp_path, write_log, layout):
    written, opened, expected = LAYOUTS[layout]
    (tmp_path / "root").mkdir()
    for path in written:
        write_log(f"root/{path}", TOKENS)
    result = discover(tmp_path / "root" / opened)
    files = {run.name: [f.path.relative_to(run.path) for f in run.files] for run in result.runs}
    assert {name: [*map(str, paths)] for name, paths in files.items()} == expected
    assert result.left_out == ()


def test_the_working_folder_is_called_by_its_name(tmp_path, write_log, monkeypatch):
    write_log("my-run/x.jsonl", ROLLOUT)
    monkeypatch.chdir(tmp_path / "my-run")
    assert names(discover(Path())) == ["my-run"]


def test_a_link_that_the_user_names_may_lead_anywhere(tmp_path, write_log):
    path = write_log("a/x.jsonl", ROLLOUT)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/link.jsonl").symlink_to(path)
    assert len(discover(tmp_path / "b/link.jsonl").runs) == 1


@pytest.mark.parametrize("name", ["²", "1²2", "", "007", "a1b", "日本9"])
def test_any_name_has_a_place_in_natural_order(name):
    assert sorted([name, "a", "1"], key=natural_order)


def test_the_newest_run_comes_first(tmp_path, write_log):
    for age, name in ((30, "old"), (10, "new"), (20, "middle")):
        path = write_log(f"{name}/x.jsonl", ROLLOUT)
        os.utime(path, (1_700_000_000 - age,) * 2)
    assert names(discover(tmp_path)) == ["new", "middle", "old"]


def test_runs_written_within_moments_are_in_the_order_of_their_names(tmp_path, write_log):
    for later, name in ((3, "run_10"), (1, "run_9"), (2, "a")):
        path = write_log(f"{name}/x.jsonl", ROLLOUT)
        os.utime(path, (1_700_000_000 + later,) * 2)
    assert names(discover(tmp_path)) == ["a", "run_9", "run_10"]


def test_metrics_and_configs_beside_a_log_are_left_out_with_the_reason(tmp_path, write_log):
    write_log("run/log.jsonl", ROLLOUT)
    write_log("run/metrics.jsonl", {"step": 1, "loss": 0.5})
    write_log("run/empty.jsonl")
    write_log("run/counts.jsonl", {"loss": 0.5})
    (run,) = discover(tmp_path).runs
    assert {problem.path: problem.severity for problem in run.left_out} == {
        "counts.jsonl": "note",
        "empty.jsonl": "note",
    }
    assert "metrics, not rollouts" in next(
        p.reason for p in run.left_out if p.path == "counts.jsonl"
    )
    assert [path.name for path in run.metric_files] == ["metrics.jsonl"]


def test_metric_files_are_of_the_nearest_run_or_of_the_only_one_below(tmp_path, write_log):
    for run in ("a", "b/rollouts", "c/first", "c/second"):
        write_log(f"{run}/log.jsonl", ROLLOUT)
    scalars = {"step": 1, "loss": 0.5}
    for path in ("a/logs/metrics.jsonl", "b/metrics.jsonl", "c/metrics.jsonl"):
        write_log(path, scalars)
    (tmp_path / "a" / "progress.csv").write_text("step,loss\n1,0.5\n")
    result = discover(tmp_path)
    files = {
        run.name: [path.relative_to(tmp_path).as_posix() for path in run.metric_files]
        for run in result.runs
    }
    assert files == {
        "a": ["a/logs/metrics.jsonl", "a/progress.csv"],
        "b/rollouts": ["b/metrics.jsonl"],
        "c/first": [],
        "c/second": [],
    }
    assert [*reasons(result)] == ["c/metrics.jsonl"]


def test_files_without_a_run_are_named_from_the_root(tmp_path, write_log):
    write_log("a/b/metrics.jsonl", {"step": 1, "loss": 0.5})
    result = discover(tmp_path)
    assert result.runs == ()
    assert list(reasons(result)) == ["a/b/metrics.jsonl"]


def test_git_lfs_pointers_and_rubbish_are_lost_and_named(tmp_path, write_log):
    write_log("a/lfs.jsonl", b"version https://git-lfs.github.com/spec/v1\n")
    write_log("a/rubbish.jsonl", bytes(range(256)) * 10)
    result = discover(tmp_path)
    assert "git lfs pull" in reasons(result)["a/lfs.jsonl"]
    assert "not JSON" in reasons(result)["a/rubbish.jsonl"]
    assert {problem.severity for problem in result.left_out} == {"lost"}


def test_a_link_out_of_the_root_is_not_followed_and_told(tmp_path, write_log):
    secret = write_log("elsewhere/x.jsonl", ROLLOUT)
    write_log("root/run/y.jsonl", ROLLOUT)
    (tmp_path / "root/run/link.jsonl").symlink_to(secret)
    (tmp_path / "root/folder").symlink_to(secret.parent)
    result = discover(tmp_path / "root")
    (run,) = result.runs
    assert [file.path.name for file in run.files] == ["y.jsonl"]
    assert "outside the root" in run.left_out[0].reason
    assert reasons(result) == {"folder": "links to folders are not followed"}


def test_a_link_within_the_root_is_read(tmp_path, write_log):
    target = write_log("run/data.bin", ROLLOUT)
    (tmp_path / "run/link.jsonl").symlink_to(target)
    assert names(discover(tmp_path)) == ["run"]


@pytest.mark.parametrize("target", ["nowhere.jsonl", "loop.jsonl"])
def test_a_link_that_leads_nowhere_is_left_out(tmp_path, target):
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / target)
    assert list(reasons(discover(tmp_path))) == ["loop.jsonl"]


@pytest.mark.parametrize("wanted", ["nowhere", "nul\0", "x" * 5000])
def test_a_root_that_does_not_exist_says_so(tmp_path, wanted):
    with pytest.raises(Exception, match=r"does not exist|can't be read") as caught:
        discover(tmp_path / wanted)
    assert type(caught.value).__module__ == "board.errors"


def deny(patch: pytest.MonkeyPatch, name: str, path: Path) -> None:
    """Has a function of `os` refuse one path, as it does not for root."""
    real = getattr(os, name)

    def guarded(at, *arguments, **options):
        if os.fspath(at) == str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(at, *arguments, **options)

    patch.setattr(os, name, guarded)


def test_a_folder_that_can_not_be_listed_is_told(tmp_path, write_log, monkeypatch):
    write_log("fine/x.jsonl", ROLLOUT)
    (tmp_path / "locked").mkdir()
    deny(monkeypatch, "scandir", tmp_path / "locked")
    result = discover(tmp_path)
    assert names(result) == ["fine"]
    assert reasons(result) == {"locked": "the folder can't be read: Permission denied"}
    assert result.left_out[0].severity == "lost"


def test_a_file_that_can_not_be_read_is_told(tmp_path, write_log, monkeypatch):
    write_log("x.jsonl", ROLLOUT)
    deny(monkeypatch, "open", write_log("y.jsonl", ROLLOUT))
    (run,) = discover(tmp_path).runs
    assert [(p.path, p.reason) for p in run.left_out] == [
        ("y.jsonl", "can't be read: Permission denied")
    ]


def test_an_unknown_run_is_an_error_that_names_the_known_ones(tmp_path, write_log):
    write_log("a/x.jsonl", ROLLOUT)
    with pytest.raises(NotFoundError, match=r"no run 'b'.*runs found: a"):
        discover(tmp_path).run("b")


def test_a_folder_with_logs_of_two_formats_is_two_runs(tmp_path, write_log):
    texts, tokens = write_log("a/x.jsonl", ROLLOUT), write_log("a/y.jsonl", TOKENS)
    result = discover(tmp_path)
    runs = {run.name: run for run in result.runs}
    assert set(runs) == {"a (jsonl)", "a (prime_rl_tokens)"}
    assert [file.path for file in runs["a (jsonl)"].files] == [texts]
    assert [file.path for file in runs["a (prime_rl_tokens)"].files] == [tokens]
    assert len({run.part for run in result.runs}) == 2


@pytest.mark.parametrize("wanted", ["..", "../..", "/", "/etc/passwd", "a/../../x", "link"])
def test_no_path_leaves_the_root(tmp_path, wanted):
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    with pytest.raises(OutsideRootError, match="outside"):
        resolve_inside(root, wanted)


@pytest.mark.parametrize("wanted", ["nowhere", "nul\0", "x" * 5000, "loop"])
def test_a_path_that_is_none_is_not_found(tmp_path, wanted):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(NotFoundError):
        resolve_inside(tmp_path, wanted)


def test_a_path_within_the_root_is_resolved(tmp_path):
    (tmp_path / "a").mkdir()
    assert resolve_inside(tmp_path, "a") == tmp_path / "a"
    assert resolve_inside(tmp_path, str(tmp_path / "a")) == tmp_path / "a"
    assert resolve_inside(tmp_path, "") == tmp_path
