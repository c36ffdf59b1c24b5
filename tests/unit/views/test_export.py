"""A file that somebody asks for reaches the browser."""

from threading import Timer

from board.views.shared import page_export
from board.views.shared.rollout_files import Made


def test_the_panel_is_drawn_again_when_the_browser_has_asked_for_the_file() -> None:
    """Streamlit forgets a file's name when its button is drawn again."""
    job = page_export._Job("page", "CSV", lambda report: Made(b"a,b", []))
    asks = Timer(0.2, job.data)
    asks.start()
    page_export._begin(job)
    assert job.asked.is_set()
    asks.join()
