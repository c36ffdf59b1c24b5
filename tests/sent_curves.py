"""What the page is sent of curves, taken apart as its script does."""

import json
import zlib
from itertools import accumulate, pairwise
from typing import Any


def unpacked(grid: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the script of the curves is sent: what all of them have in common, and each."""
    line, _, remainder = grid.partition(b"\n")
    common = json.loads(line)
    ends = list(accumulate((size for _, size in common.pop("charts")), initial=0))
    return common, [json.loads(zlib.decompress(remainder[a:b])) for a, b in pairwise(ends)]
