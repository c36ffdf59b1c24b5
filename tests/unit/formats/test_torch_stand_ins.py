import io
import uuid

import numpy as np
import pytest

from board.formats.io.torch_files import TORCH, Array, DType, Image, Number
from board.formats.sources import DamagedError

torch = pytest.importorskip("torch")


@pytest.fixture
def through_a_file(tmp_path):
    """What the board makes of a value that torch.save wrote."""

    def read(value):
        path = tmp_path / "0.pt"
        torch.save({"value": value}, path)
        return TORCH.fetch(path, 0, 1).record["value"]

    return read


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.5, np.inf], [-2.0, 0.25]]),
        np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        np.array([True, False]),
        np.array([1, 2], dtype=">u2"),
        np.zeros((0, 3), dtype=np.float16),
        np.array(7, dtype=np.int64),
    ],
)
def test_an_array_has_the_numbers_that_numpy_wrote(through_a_file, array):
    assert through_a_file(array) == array.tolist()
    assert through_a_file([{"a": array}]) == [{"a": array.tolist()}]


@pytest.mark.parametrize("number", [np.float64(0.1), np.float32(0.5), np.int64(-3), np.bool_(True)])
def test_a_number_is_that_which_numpy_wrote(through_a_file, number):
    assert through_a_file(number) == number.item()


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([{}]), np.array([1j])])
def test_an_array_of_anything_but_numbers_is_not_recorded(through_a_file, array):
    assert through_a_file({"array": array, "beside": 1}) == {"array": None, "beside": 1}


def test_an_image_is_its_size(through_a_file):
    pil = pytest.importorskip("PIL.Image")
    image = pil.new("RGB", (64, 48))
    stored = io.BytesIO()
    image.save(stored, "PNG")
    assert through_a_file(image) == {"width": 64, "height": 48}
    assert through_a_file(pil.open(stored)) == {"width": 64, "height": 48}


@pytest.mark.parametrize(
    ("stand_in", "message", "state"),
    [
        (Array, (), None),
        (Array, (), (1, (2,), DType("f8"), False, b"short")),
        (Array, (), (1, (-1, -1), DType("f8"), False, bytes(8))),
        (Array, (), (1, ("a",), DType("f8"), False, bytes(8))),
        (Array, (), (1, (1,), DType(["f8"]), False, bytes(8))),
        (Array, (), (1, (1,), "f8", False, bytes(8))),
        (Array, (), (1, (1,), DType("O8"), False, [object])),
        (Number, (DType("f8"), b"short"), None),
        (Number, (DType(), bytes(8)), None),
        (Number, (1,), None),
    ],
)
def test_what_a_file_says_wrongly_is_not_recorded(stand_in, message, state):
    made = stand_in(*message)
    made.__setstate__(state)
    assert made.plain() is None


@pytest.mark.parametrize("state", [None, (), ({}, "RGB", "large"), ({}, "RGB", (1,))])
def test_an_image_without_a_size_is_an_image(state):
    image = Image()
    image.__setstate__(state)
    assert image.plain() == {}


def test_torch_is_told_of_nothing_once_a_file_is_read(through_a_file):
    before = set(torch.serialization.get_safe_globals())
    through_a_file(np.array([1.0]))
    assert set(torch.serialization.get_safe_globals()) == before


def test_an_object_of_any_other_class_is_refused_by_its_name(through_a_file):
    with pytest.raises(DamagedError, match=r"it holds .*UUID, which is"):
        through_a_file(uuid.UUID(int=1))
