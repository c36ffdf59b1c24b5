"""An exported page in a browser without a network: nothing runs, and colours are those of the reader."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import written_logs
from colours import contrast
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect
from test_reader_script import SCRIPTS

from board.analysis.rollout import open_rollout
from board.components.token_data import spec_of, unknown_metric
from board.core.metrics.definitions import token_metric
from board.core.tokens.scales import Span
from board.export.colours import colours_of, level_classes, level_styles
from board.export.comparison_part import Side
from board.export.pages import PageOptions, comparison_page, first_rows, listed_page
from board.export.rollout_part import Address
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run

pytestmark = pytest.mark.browser

LEVELS = """({values, spec, mask, span}) => {
  const metric = { values: Float32Array.from(values), absent: null, spec: {...spec, span} };
  const inLoss = Uint8Array.from(mask);
  const scale = scaleOf(metric, inLoss);
  const levels = [...values.keys()].map((i) => levelOf(metric, scale, i, inLoss));
  return [levels, scale.caption, scale.ends ?? null];
}"""
METRICS = (
    "k3",
    "logprobs",
    "importance_ratio",
    "advantages",
    "loss_mask",
    "prob",
    "a framework's own",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Pages of a hostile run: a list with its rollouts, and two side by side."""
    root = tmp_path_factory.mktemp("hostile")
    written_logs.hostile_run(root)
    (info,) = discover(root).runs
    run = open_run(info)
    rows = first_rows(run, None)
    sides = [Side(run, open_rollout(run, 1, i), Address(1, i)) for i in (1, 2)]
    pages = [
        listed_page(run, rows, len(rows), written_logs.HOSTILE[0], PageOptions()),
        comparison_page(sides[0], sides[1], PageOptions()),
    ]
    paths = [root / f"{number}.html" for number in range(len(pages))]
    for path, page in zip(paths, pages, strict=True):
        path.write_bytes(page.html)
    return paths


@pytest.fixture
def offline(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(offline=True, viewport={"width": 1200, "height": 900})
    yield context.new_page()
    context.close()


def test_nothing_of_a_hostile_log_runs_or_is_fetched(offline, files):
    asked: list[str] = []
    said: list[str] = []
    offline.on("request", lambda request: asked.append(request.url))
    offline.on("console", lambda message: said.append(message.text))
    offline.on("pageerror", lambda error: said.append(str(error)))
    for path in files:
        asked.clear()
        offline.goto(path.as_uri())
        assert asked == [path.as_uri()]
        assert offline.evaluate("window.hacked") is None
        assert offline.locator("script, iframe, img, link, object, embed, form, input").count() == 0
        expect(offline.get_by_text('<script>window.hacked="prompt"</script>').first).to_be_visible()
    assert said == []  # what the policy refuses would be said here


def channels(colour: str) -> list[int]:
    """Of "rgb(1, 2, 3)"."""
    return [int(number) for number in re.findall(r"\d+", colour)][:3]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_follows_the_readers_colours_and_stays_legible(offline, files, scheme):
    offline.emulate_media(color_scheme=scheme)
    offline.goto(files[0].as_uri())
    colours = "e => [getComputedStyle(e).color, getComputedStyle(document.body).backgroundColor]"
    for words in ("h1", "dd", "dt", ".legend span", "footer p"):
        text, back = offline.locator(words).first.evaluate(colours)
        assert contrast(channels(text), channels(back)) >= 4.5, words
    assert (channels(back)[0] < 60) == (scheme == "dark")


def test_a_printed_page_is_dark_on_white_and_hides_nothing(offline, files):
    offline.emulate_media(color_scheme="dark", media="print")
    offline.goto(files[0].as_uri())
    back = offline.evaluate("getComputedStyle(document.body).backgroundColor")
    assert channels(back) == [255, 255, 255]
    cut = "all => all.filter((e) => e.scrollHeight > e.clientHeight + 2).length"
    assert offline.locator("pre").evaluate_all(cut) == 0


def test_tokens_have_the_levels_that_the_reader_gives_them(offline):
    offline.goto("about:blank")
    for part in ("numbers", "text", "rollout", "scale"):
        offline.add_script_tag(content=(SCRIPTS / f"{part}.js").read_text(encoding="utf-8"))
    random = np.random.default_rng(7)
    tails = random.exponential(1, 300) ** 6
    samples = {
        "few": np.array([0.0, 0.5, -2.0]),
        "tails": tails,
        "both": tails * random.choice([-1, 1], 300),
        "below": -tails,
        "flags": random.integers(0, 2, 50).astype(float),
        "same": np.full(9, 0.25),
        "ones": np.ones(9),
        "decades": 10.0 ** random.uniform(-9, 2, 200),
        "infinite": np.array([*random.normal(0, 1, 40), np.inf, -np.inf]),
    }
    for name in METRICS:
        for kind, values in samples.items():
            mask = (random.random(len(values)) < 0.8).astype(int)
            known = token_metric(name)
            metric = known if known.label != name else unknown_metric(name, values)
            for span in (None, Span(-0.5, 1.5, -9.0, 40.0, "of two")):
                given = {"values": values.tolist(), "spec": spec_of(metric), "mask": mask.tolist()}
                given["span"] = span and {**asdict(span), "words": span.words}
                levels, caption, ends = offline.evaluate(LEVELS, given)
                own = colours_of(name, values, mask > 0, span)
                # On the border of two shades either is right: logarithms differ in the last bit.
                assert np.abs(own.levels - np.array(levels)).max() <= 1, (name, kind, span)
                assert np.mean(own.levels != np.array(levels)) <= 0.02, (name, kind, span)
                assert own.caption.replace(",", "") == caption.replace(",", ""), (name, kind, span)
                assert (own.ends is None) == (ends is None)


@pytest.fixture(scope="module")
def scale_script(chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page()
    for part in ("numbers", "text", "rollout", "scale"):
        page.add_script_tag(content=(SCRIPTS / f"{part}.js").read_text(encoding="utf-8"))
    yield page
    page.close()


SIZES = st.floats(0, 2.0**60, width=32, allow_subnormal=False)
ARRAYS = st.lists(st.tuples(SIZES, st.sampled_from((0, 1, 1, 1))), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    few=ARRAYS,
    ordinary=st.sampled_from((0, 200)),
    name=st.sampled_from(("k3", "entropy", "k1", "a framework's own")),
)
def test_the_largest_value_looks_like_no_smaller_one_and_what_is_masked_has_no_colour(
    scale_script, few, ordinary, name
):
    """On the page and in an exported one, of few tokens and of many."""
    usual = np.random.default_rng(0).exponential(1e-3, ordinary)
    values = np.array([*usual, *(value for value, _ in few)]).astype(np.float32).astype(float)
    in_loss = np.array([*np.ones(ordinary), *(own for _, own in few)]) > 0
    spec = spec_of(token_metric(name))
    given = {"values": values.tolist(), "spec": spec, "mask": in_loss.astype(int).tolist()}
    given["span"] = None
    drawn, _, _ = scale_script.evaluate(LEVELS, given)
    exported = colours_of(name, values, in_loss).levels
    assert np.abs(exported - np.array(drawn)).max() <= 1
    for levels in (np.array(drawn), exported):
        assert not levels[~in_loss].any()
        counted, of_them = levels[in_loss], values[in_loss]
        if not len(of_them) or of_them.min() == of_them.max():
            continue
        order = np.argsort(of_them)
        assert (np.diff(counted[order]) >= 0).all()
        largest = of_them == of_them.max()
        assert set(counted[largest]) <= {15, 19}
        half_way = of_them.min() + (of_them.max() - of_them.min()) / 2
        assert (counted[of_them <= half_way] < counted[largest].max()).all()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_shades_are_those_of_the_reader(offline, theme):
    offline.goto("about:blank")
    offline.add_script_tag(content=(SCRIPTS / "scale.js").read_text(encoding="utf-8"))
    classes = "".join(f"<i class={name}></i>" for name in level_classes() if name)
    drawn: list[list[str]] = []
    for style in (level_styles(theme), offline.evaluate(f"paletteRules(PALETTES.{theme})")):
        named = style.replace(".high", ".h").replace(".low", ".l")
        offline.set_content(f"<style>{named}</style>{classes}")
        colour = "all => all.map((e) => getComputedStyle(e).backgroundColor)"
        drawn.append(offline.locator("i").evaluate_all(colour))
    assert drawn[0] == drawn[1]
    assert len({*drawn[0]}) > 25
