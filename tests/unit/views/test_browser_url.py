"""The URL between a browser and the server, whose messages meet on the way."""

from itertools import count
from types import SimpleNamespace

import pytest
import streamlit as st
from hypothesis import example, given
from hypothesis import strategies as some

from board.views.shared import browser_url, state

SWITCHES = ("live", "follow", "overview_log")
OF_SCRIPTS = ("steps", "q", "page")
VALUES = {"steps": ["1-5", "2-9", None], "q": ["a b", "100%", None], "page": ["1", "2", None]}


class Browser:
    """As Streamlit's frontend: a run comes with the URL that the server wrote last."""

    def __init__(self):
        self.shown, self.written = {"run": "r"}, {"run": "r"}
        self.sent = [({**self.shown}, {}, [])]
        self.messages = []  # what the server has sent: URLs, and ids of changes that it has got
        self.unanswered = []
        self.numbers = count()

    def send(self, widgets):
        self.sent.append(({**(self.written or self.shown)}, widgets, [*self.unanswered]))

    def switch(self, name, value):
        self.send({name: value})

    def change(self, name, text):
        about = {"id": str(next(self.numbers)), "page": "overview"}
        self.unanswered.append({**about, "changes": {name: text}})
        self.show(name, text)
        self.send({})

    def show(self, name, text):
        self.shown.pop(name, None)
        if text is not None:
            self.shown[name] = text

    def take_message(self):
        if not self.messages:
            return
        message = self.messages.pop(0)
        if isinstance(message, dict):
            self.shown, self.written = {**message}, {**message}
            return
        for entry in self.unanswered:
            for name, text in entry["changes"].items():
                self.show(name, text)
        self.unanswered = [entry for entry in self.unanswered if entry["id"] not in message]


class Server:
    def __init__(self, browser):
        self.url, self.browser = {}, browser
        query = SimpleNamespace(to_dict=lambda: {**self.url}, from_dict=self.write)
        self.streamlit = SimpleNamespace(session_state={}, query_params=query)

    def write(self, url):
        self.url = {**url}
        self.browser.messages.append({**url})

    def run(self):
        if not self.browser.sent:
            return
        url, widgets, entries = self.browser.sent.pop(0)
        self.url = {**url}
        self.streamlit.session_state.update(widgets)
        browser_url.receive(entries, "overview", state.take_changes)
        state.pull("overview")
        self.browser.messages.append([*browser_url.received()])
        state.push()


ACTS = some.one_of(
    some.tuples(some.just("switch"), some.sampled_from(SWITCHES), some.booleans()),
    some.sampled_from(OF_SCRIPTS).flatmap(
        lambda name: some.tuples(
            some.just("change"), some.just(name), some.sampled_from(VALUES[name])
        )
    ),
    some.tuples(some.just("run")),
    some.tuples(some.just("take_message")),
)


PRESSED = ("switch", "live", True)
UNDONE = ("switch", "live", False)


@given(some.lists(ACTS, max_size=30))
@example([PRESSED, ("run",), UNDONE, ("take_message",), ("take_message",), PRESSED])
@example([PRESSED, ("run",), UNDONE, ("take_message",), ("take_message",), UNDONE])
def test_what_was_chosen_last_is_chosen_and_in_the_url_however_messages_meet(acts):
    browser = Browser()
    server = Server(browser)
    chosen = dict.fromkeys(SWITCHES, False)
    texts = dict.fromkeys(OF_SCRIPTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(st, "session_state", server.streamlit.session_state)
        patch.setattr(st, "query_params", server.streamlit.query_params)
        server.run()
        browser.take_message()
        for act, *about in acts:
            if act == "run":
                server.run()
                continue
            getattr(browser, act)(*about)
            if act == "switch":
                chosen[about[0]] = about[1]
            elif act == "change":
                texts[about[0]] = about[1]
        while browser.sent or browser.messages:
            server.run()
            browser.take_message()
        kept = {name: state.get(name) for name in SWITCHES}
        url = state.encoded()
        texts_kept = {name: url.get(name) for name in OF_SCRIPTS}
    assert kept == chosen
    assert texts_kept == texts
    assert browser.shown == url


@pytest.mark.parametrize(
    "sent", [None, "x", [None], [{}], [{"id": 1, "page": "overview", "changes": 3}]]
)
def test_any_message_of_a_browser_is_taken_without_an_error(monkeypatch, sent):
    monkeypatch.setattr(st, "session_state", {})
    changes = []
    browser_url.receive(sent, "overview", changes.append)
    assert changes == []


def test_a_change_is_taken_once_and_never_on_another_page(monkeypatch):
    monkeypatch.setattr(st, "session_state", {})
    changes = []
    entry = {"id": "a", "page": "overview", "changes": {"q": "x"}}
    for page in ("overview", "overview", "step"):
        browser_url.receive([entry, {**entry, "id": page}], page, changes.append)
    assert changes == [{"q": "x"}, {"q": "x"}]
