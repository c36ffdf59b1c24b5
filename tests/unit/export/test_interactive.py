"""A page to take along: one script, named by its policy, its size, and no text of a log in markup."""

import hashlib
import re
import zlib
from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from read_formats import run_at, sample_run
from written_logs import HOSTILE, hostile_run, rllb_run

from board.analysis.rollout import open_rollout
from board.errors import ChoiceError
from board.export import interactive
from board.export.interactive import interactive_page
from board.export.interactive.tables import packed
from board.export.rollout_frame import content_and_frame

PARTS = sorted(Path(interactive.__file__).parent.rglob("*.js"))
SINKS = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc")
FIRST = [(1, index) for index in range(10)]


def data_of(page: str) -> list[str]:
    return re.findall(r'<script type="application/octet-stream" class="data" [^>]*>(.*?)<', page)


def contents_of(page: bytes) -> list[dict]:
    return orjson.loads(zlib.decompress(b64decode(data_of(page.decode())[0])))


def test_the_policy_names_the_one_script_and_allows_no_request():
    page = interactive_page(sample_run("grpo_calculator"), FIRST[:1])[0].decode()
    (script,) = re.findall(r'<script type="module">(.*?)</script>', page, re.S)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules.pop("script-src") == f"'sha256-{digest}'"
    assert rules.pop("default-src") == "'none'"
    allowed = {"style-src": "'unsafe-inline'", "img-src": "data:", "worker-src": "blob:"}
    assert rules == allowed | {"base-uri": "'none'", "form-action": "'none'"}
    names = re.findall(r"^(?:async )?function (\w+)", script, re.MULTILINE)
    assert len(names) == len({*names})
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_the_hash_in_the_footer_is_of_all_data():
    page = interactive_page(sample_run("grpo_calculator"), FIRST[:2])[0].decode()
    data = data_of(page)
    digest = hashlib.sha256("\n".join(data).encode()).hexdigest()
    assert f'id="hash">{digest}<' in page
    assert page.count("<script") == len(data) + 1


def test_no_text_of_a_log_stands_in_the_file_as_it_is(tmp_path):
    run = run_at(hostile_run(tmp_path))
    title = "</title><script>window.hacked=1</script>"
    page = interactive_page(run, FIRST, title=title)[0].decode()
    assert [trap for trap in HOSTILE if trap.format(n="id1") in page] == []
    assert title not in page
    assert page.count("&lt;script&gt;window.hacked") == 2


def test_a_rollout_is_there_in_each_way_that_the_log_has_it(tmp_path):
    (both,) = contents_of(interactive_page(sample_run("grpo_calculator"), FIRST[:1])[0])
    assert (both["first"], [*both["data"]]) == ("tokens", ["tokens", "text"])
    ids = tmp_path / "ids" / "x.jsonl"
    ids.parent.mkdir()
    ids.write_text('{"step": 1, "response_ids": [5, 6], "response": "ab", "reward": 1}\n')
    (as_text,) = contents_of(interactive_page(run_at(ids.parent), [(1, 0)])[0])
    assert (as_text["first"], [*as_text["data"]]) == ("text", ["tokens", "text"])


def test_a_page_says_what_did_not_fit_and_stays_below_its_size():
    run = sample_run("grpo_calculator")
    whole, nothing = interactive_page(run, FIRST)
    assert nothing == 0
    assert b"left out" not in re.sub(rb"<script.*</script>", b"", whole, flags=re.S)
    most = len(whole) - 1000
    page, left_out = interactive_page(run, FIRST, most_bytes=most)
    assert 0 < left_out < len(FIRST)
    assert len(contents_of(page)) == len(FIRST) - left_out
    assert len(page) <= most
    assert (
        f"{left_out} of 10 rollouts are left out: the page may have {most:,} bytes."
        in page.decode()
    )


@pytest.mark.parametrize("total", [None, 10, 11, 4_800])
@pytest.mark.parametrize("is_full", [False, True])
def test_a_page_says_how_many_of_all_rollouts_it_does_not_have(total, is_full):
    run = sample_run("grpo_calculator")
    most = len(interactive_page(run, FIRST)[0]) - 1000 if is_full else 20_000_000
    page, cut = interactive_page(run, FIRST, most_bytes=most, total=total)
    left_out = (total or 10) - 10 + cut
    text = re.sub(r"<script.*</script>", "", page.decode(), flags=re.S)
    said = f"{left_out:,} of {total or 10:,} rollouts are left out: "
    assert (said in text) == (left_out > 0)
    assert ("left out" in text) == (left_out > 0)
    assert ("bytes" in text) == is_full


def test_what_can_not_be_a_page_is_refused_in_words(tmp_path):
    run = run_at(rllb_run(tmp_path))
    with pytest.raises(ChoiceError, match="needs at least one"):
        interactive_page(run, [])
    with pytest.raises(ChoiceError, match=r"rollout 2 of step 3 alone takes [\d,]+ bytes"):
        interactive_page(run, [(3, 2)], most_bytes=1000)
    with pytest.raises(ChoiceError, match=r"token metric logprob; did you mean logprobs"):
        interactive_page(run, [(3, 2)], metric="logprob")


def test_numbers_are_packed_with_what_is_missing_apart_from_nan():
    values = pa.table({"x": pa.array([1.5, None, np.nan], pa.float32(), from_pandas=False)})
    content = packed({"view": {}, "metrics": values})
    length = int.from_bytes(content[:4], "little")
    (column,) = orjson.loads(content[4 : 4 + length])["tables"]["metrics"]["columns"].values()
    assert (4 + length) % 8 == 0
    buffers = {
        name: content[4 + length + column[name][0] :][: column[name][1]]
        for name in ("values", "absent")
    }
    assert column["nulls"] == 1
    numbers = np.frombuffer(buffers["values"], "<f4").tolist()
    assert numbers == pytest.approx([1.5, 0, np.nan], nan_ok=True)
    assert list(buffers["absent"]) == [0, 1, 0]


@pytest.mark.parametrize("part", PARTS, ids=lambda path: path.name)
def test_a_script_has_no_way_to_turn_text_into_markup(part):
    source = part.read_text(encoding="utf-8")
    assert [sink for sink in SINKS if sink in source] == []


def test_a_filtered_run_counts_the_solved_of_the_whole_group():
    run = sample_run("grpo_reward_hack")
    whole, part = (
        content_and_frame(one, open_rollout(one, 2, 31))[1]
        for one in (run, run.where("reward > 1.9"))
    )
    assert [fact.after for fact in whole.facts if fact.label == "group"] == ["· 1/8 solved"]
    assert whole.facts == part.facts
