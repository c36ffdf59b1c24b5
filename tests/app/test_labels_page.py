"""The page Labels: empty, and with a sample that two authors labelled."""

import shutil

from page_elements import texts

from board.cli.opened_runs import opened
from board.cli.runs import find_run
from board.query.labels.matching import set_label, with_labels
from board.query.labels.samples import draw_sample
from board.query.rollouts import Sorting, frame


def test_an_unlabelled_run_says_how_to_begin(open_app, logs):
    app = open_app(logs, "labels", run="native")
    assert "Nothing is labelled yet." in texts(app)


def test_a_sample_has_its_shares_in_words_and_authors_their_agreement(open_app, logs, tmp_path):
    shutil.copytree(logs / "native", tmp_path / "native")
    run = opened(find_run(str(tmp_path / "native")))
    drawn = draw_sample(run, "ann", 10, 'a "1" *b*', seed=0)
    run = with_labels(run)
    rows = run.where('label_sample contains "a "').frame(["step"])
    assert len(rows) == drawn
    for place, (step, index) in enumerate(zip(rows["step"], rows["index"], strict=True)):
        set_label(run, "ann", int(step), int(index), "label", "__cheat__" if place % 2 else "good")
        set_label(run, "bob", int(step), int(index), "label", "good")
    app = open_app(tmp_path, "labels", run="native")
    page = texts(app)
    assert f"{drawn} of {drawn} labelled" in page
    assert f"n = {drawn} of {run.rollout_count}" in page
    assert "ann and bob" in page
    app.button(key='labels_open_a "1" *b*').click().run()
    assert not app.exception
    assert app.session_state["where"] == 'label_sample contains "a ""1"" *b*"'
    # The first of the list, which is in the sample's random order: the next key leads to all others.
    assert app.session_state["sort"] == "label_order"
    ordered = frame(with_labels(run), ["step", "index"], Sorting("label_order"))
    opened_first = (app.session_state["step"], app.session_state["index"])
    assert opened_first == (ordered["step"].iloc[0], ordered["index"].iloc[0])
