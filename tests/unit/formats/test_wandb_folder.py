"""The folder of a run of W&B: rollouts of its tables, with the curves of the .wandb file beside them."""

import math

from read_formats import records, run_at, values_of
from read_metrics import offline_run

from board.analysis.audit import audit_all
from board.query.trainer.metrics import read_trainer_metrics


def test_tables_of_completions_and_curves_of_one_folder_are_one_run(tmp_path, monkeypatch):
    wandb, run = offline_run(tmp_path, monkeypatch)
    columns = ["step", "prompt", "completion", "accuracy", "format", "advantage"]
    said = (
        [{"role": "user", "content": "What is 2 + 2?"}],
        [{"role": "assistant", "content": "It is 4."}],
    )
    rows = [
        [[step, *said, 1.0, math.nan, 0.5], [step, *said, 0.0, 0.25, -0.5]] for step in (1, 2, 3)
    ]
    with run:
        for step, data in enumerate(rows, 1):
            # As TRL does: numbers at the trainer's step, the table at W&B's next one.
            run.log({"train/loss": 1 / step, "train/global_step": step})
            run.log({"completions": wandb.Table(columns=columns, data=data)})
    wandb.teardown()
    board_run = run_at(tmp_path / "wandb")
    result = [values_of(record) for record in records(board_run)]
    assert [(row["step"], row["advantage"]) for row in result] == [
        (row[0], row[-1]) for data in rows for row in data
    ]
    parts = [(row.get("rewards.accuracy"), row.get("rewards.format")) for row in result]
    assert parts == [(1.0, None), (0.0, 0.25)] * 3
    assert {(row["prompt"], row["response"]) for row in result} == {
        ("[user]\nWhat is 2 + 2?", "It is 4.")
    }
    loss = read_trainer_metrics(board_run).curves["trainer/train/loss"]
    assert loss.values.tolist() == [1.0, 0.5, 1 / 3]
    assert audit_all(board_run, lambda done, total: None).problems == ()
