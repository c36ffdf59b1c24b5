"""The pages: `dashboard.py` runs `NAME/NAME.py`; `frame/` surrounds each, `shared/` serves several."""
