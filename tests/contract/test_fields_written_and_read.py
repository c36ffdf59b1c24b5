import pytest

from board.core import schema
from exporters import record

NAMES = (
    *("SCHEMA_VERSION", "LINE_TYPES", "ID_FIELDS", "TEXT_FIELDS", "SCORE_FIELDS"),
    *("TOKEN_ID_FIELDS", "TOKEN_FLOAT_FIELDS", "TOKEN_FLAG_FIELDS", "TOPK_FIELDS"),
    "STRUCTURE_FIELDS",
)


@pytest.mark.parametrize("name", NAMES)
def test_exporter_and_board_name_the_same_fields(name):
    assert getattr(record, name) == getattr(schema, name)


def test_no_field_stands_in_two_families():
    assert len(schema.SAMPLE_FIELDS) == len(set(schema.SAMPLE_FIELDS))


def test_every_family_of_the_exporter_is_compared():
    families = {name for name in vars(record) if name.endswith("_FIELDS")} - {"WRITER_FIELDS"}
    assert families <= set(NAMES)
