"""Streamlit may mount a component again on the element that it was mounted on before."""

import pytest
from playwright.sync_api import Page

from board.components import filter_field, read_files, rollout_list

pytestmark = pytest.mark.browser

MOUNT_TWICE = """data => {
  window.told = [];
  const setTriggerValue = (name, value) => told.push(value);
  const mounted = { data, parentElement: document.body, setTriggerValue };
  mount(mounted)();
  mount(mounted);
}"""
COLUMN = {"name": "index", "label": "#", "help": "", "width": 30, "worth": 0, "kind": "number"}
ROWS = {"columns": [COLUMN], "addresses": [[1, 0]], "values": [[0]], "words": None}
LIST = {"page": {**ROWS, "first": 0, "total": 1, "size": 200, "before": None, "after": None}}
LIST |= {"identity": "run", "sort": "", "descending": False, "opened": None}
LIST |= {"parameters": [], "fits": True, "prefix": ""}
FIELD = {"text": "", "count": "1 rollout", "columns": [], "words": [], "refused": None}


def mount_twice(page: Page, module, html: str, data) -> None:
    # What all components have, then the component's own scripts.
    shared = ("../elements.js", "../keys.js", "../outbox.js", "../rerun.js")
    scripts = (f"js/{name}.js" for name in module._SCRIPTS if not name.startswith("../"))
    script = read_files(module.__file__, (*shared, *scripts))
    # The address of the list and the browser's storage are those of a site.
    page.route(
        "http://board.test/", lambda route: route.fulfill(body=html, content_type="text/html")
    )
    page.goto("http://board.test/")
    page.add_script_tag(content=script.replace("export default function", "mount = function"))
    page.evaluate(MOUNT_TWICE, data)
    page.unroute("http://board.test/")


def test_a_list_that_is_mounted_again_is_there_once(page):
    mount_twice(page, rollout_list, '<div class="list"></div>', LIST)
    assert page.locator(".list .grid").count() == page.locator(".list .row").count() == 1


def test_a_filter_field_that_is_mounted_again_applies_a_filter_once(page):
    html = read_files(filter_field.__file__, ["filter_field.html"])
    mount_twice(page, filter_field, html, FIELD)
    page.locator(".filter input").fill("reward > 1")
    page.keyboard.press("Enter")
    assert page.evaluate("told") == ["reward > 1"]
