"""The pages: `dashboard.py` runs `NAME/page.py`; `frame/` surrounds each, `shared/` serves several."""
