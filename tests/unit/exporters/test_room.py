import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exporters.arrays.room import Room, Spare


@given(st.lists(st.integers(0, 600_000), max_size=12))
def test_arrays_of_one_room_do_not_overlap(sizes):
    room = Room(Spare(1 << 30))
    arrays = [room.empty((size,), np.uint8) for size in sizes]
    for number, array in enumerate(arrays):
        array[...] = number
    assert all((array == number).all() for number, array in enumerate(arrays))


def test_memory_that_was_given_back_is_used_again_and_what_is_in_use_is_not():
    spare = Spare(1 << 30)
    one, two = Room(spare), Room(spare)
    stored = one.empty((1 << 20,), np.float32)
    one.release()
    assert two.empty((1 << 20,), np.float32).ctypes.data == stored.ctypes.data
    assert Room(spare).empty((1 << 20,), np.float32).ctypes.data != stored.ctypes.data


def test_spare_memory_is_bounded():
    spare = Spare(3 << 20)
    for _ in range(5):
        rooms = [Room(spare) for _ in range(5)]
        for room in rooms:
            room.empty((1 << 20,), np.uint8)
        for room in rooms:
            room.release()
    assert spare.nbytes <= 3 << 20
