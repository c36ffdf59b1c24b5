"""Every on-disk format the board reads, one file each. The order is the order of recognition."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import PurePath
from typing import Any, Final

from board.formats.agents.atif import AtifReader
from board.formats.agents.harbor import HarborTrialReader
from board.formats.agents.otlp import OtlpReader
from board.formats.base import Reader, layout_match
from board.formats.evaluations.code_evals import EvalPlusReader, HumanEvalReader
from board.formats.evaluations.inspect_ai import InspectReader
from board.formats.evaluations.lighteval import LightevalReader
from board.formats.evaluations.lm_eval import LmEvalReader
from board.formats.evaluations.openhands import OpenHandsReader
from board.formats.evaluations.qwen_math import QwenMathReader
from board.formats.evaluations.swe_agent import MiniSweAgentReader, SweAgentReader
from board.formats.evaluations.tau_bench import Tau2Reader, TauBenchReader
from board.formats.frameworks.areal import ArealReader, ArealTextsReader
from board.formats.frameworks.art import ArtReader
from board.formats.frameworks.atropos import AtroposReader
from board.formats.frameworks.episodes import EpisodesReader
from board.formats.frameworks.ms_swift import MsSwiftReader
from board.formats.frameworks.native import NativeReader
from board.formats.frameworks.nemo_gym import NeMoGymReader
from board.formats.frameworks.nemo_rl import NemoRLReader
from board.formats.frameworks.open_instruct import OpenInstructReader
from board.formats.frameworks.prime_hosted import PrimeHostedReader
from board.formats.frameworks.prime_rl import PrimeRLReader
from board.formats.frameworks.rllb import RLLoggingBoardReader
from board.formats.frameworks.rllm import TRAJECTORY_EVENTS, RllmReader, RllmTelemetryReader
from board.formats.frameworks.roll import RollReader
from board.formats.frameworks.skyrl import SkyRLReader
from board.formats.frameworks.slime import (
    MilesTokensReader,
    MilesTrajectoryReader,
    RelaxReader,
    SlimeReader,
    SlimeTrainReader,
)
from board.formats.frameworks.tinker import TinkerReader
from board.formats.frameworks.trackio import TrackioReader
from board.formats.frameworks.trl import TRLReader
from board.formats.frameworks.verifiers import VerifiersReader
from board.formats.frameworks.verl import VerlReader
from board.formats.frameworks.wandb_tables import WandbTableReader
from board.formats.frameworks.xtuner import XtunerReader
from board.formats.io.csv_files import CSV
from board.formats.io.inspect_files import INSPECT
from board.formats.io.parquet_files import PARQUET
from board.formats.io.remote import RemoteLocation
from board.formats.io.torch_files import TORCH
from board.formats.io.trackio_files import TRACKIO
from board.formats.io.yaml_files import YAML
from board.formats.mapping import MappingReader
from board.formats.mapping_files import mapping_reader
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, MULTILINE_JSON, TEXT, Source


def loaded(points: Iterable[EntryPoint]) -> Iterator[Reader]:
    """The readers that entry points name, as instances or as classes without arguments.

    One that can't be used is a warning, never an error.
    """
    for point in points:
        try:
            entry = point.load()
            reader = entry() if isinstance(entry, type) else entry
        except Exception as error:  # it is other people's code, and the board opens without it
            warnings.warn(f"reader {point.value} can't be loaded: {error}", stacklevel=2)
            continue
        if isinstance(reader, Reader):
            yield reader
        else:
            warnings.warn(f"reader {point.value} is not a board.formats.base.Reader", stacklevel=2)


SOURCES: Final = (
    *(MULTILINE_JSON, TRAJECTORY_EVENTS, JSON_LINES, JSON_DOCUMENT),
    *(INSPECT, PARQUET, TORCH, TEXT, YAML, CSV, TRACKIO),
)
READERS: Final[tuple[Reader, ...]] = (
    *loaded(sorted(entry_points(group="rollout_board.readers"), key=lambda point: point.name)),
    *(PrimeRLReader(), VerlReader(), MsSwiftReader(), TRLReader()),
    *(EpisodesReader(), VerifiersReader(), NeMoGymReader()),
    *(NemoRLReader(), XtunerReader(), RelaxReader(), SlimeTrainReader(), SlimeReader()),
    *(MilesTokensReader(), MilesTrajectoryReader(), RollReader(), RllmReader()),
    *(SkyRLReader(), ArealReader(), ArealTextsReader()),
    *(OpenInstructReader(), ArtReader(), TinkerReader()),
    *(AtifReader(), HarborTrialReader(), OtlpReader()),
    *(SweAgentReader(), MiniSweAgentReader(), TauBenchReader(), Tau2Reader(), OpenHandsReader()),
    *(
        InspectReader(),
        LmEvalReader(),
        LightevalReader(),
        HumanEvalReader(),
        EvalPlusReader(),
        QwenMathReader(),
    ),
    *(
        TrackioReader(),
        WandbTableReader(),
        AtroposReader(),
        PrimeHostedReader(),
        RllmTelemetryReader(),
    ),
    # These two take any line with a step and a text, so that they come last.
    *(NativeReader(), RLLoggingBoardReader()),
)

_READERS_BY_NAME: Final = {reader.name: reader for reader in READERS}
_mappings: dict[str, MappingReader] = {}


def known_mapping(text: str) -> MappingReader:
    """The reader that the text of a mapping file tells of; `reader_named` knows it from then on.

    Raises BoardError naming the key that can't be used.
    """
    reader = mapping_reader(text)
    return _mappings.setdefault(reader.name, reader)


def mapping_text(name: str) -> str:
    """The text of the mapping that a reader was made of; empty for all others."""
    return _mappings[name].text if name in _mappings else ""


def reader_named(name: str) -> Reader:
    """The reader of that name; raises KeyError."""
    if name in _mappings:
        return _mappings[name]
    return _READERS_BY_NAME[name]


def family_of(name: str) -> str:
    """The family of the reader of that name."""
    return reader_named(name).family or name


def source_of(path: PurePath | RemoteLocation) -> Source:
    """The kind of a file by its name; of lines of JSON where the name says nothing."""
    return _source_named(path.name)


def source_read_by(reader: str, path: PurePath | RemoteLocation, run: str = "") -> Source:
    """How the reader of that name has the lines of a file. run: of this one of its runs alone."""
    source = reader_named(reader).source(source_of(path))
    return source.of_run(run) if run else source


@lru_cache(maxsize=1024)
def _source_named(name: str) -> Source:
    """Cached: a file is asked for several times, and a run may have a hundred thousand."""
    path = PurePath(name)
    return next((source for source in SOURCES if source.takes(path)), JSON_LINES)


def is_worth_a_look(path: PurePath) -> bool:
    """Whether the name of a file says that it may be a log, of those kinds of which most are none."""
    source = source_of(path)
    is_likely = source.likely is not None and source.likely.search(path.name) is not None
    return not source.by_layout or is_likely or bool(layouts_of(path))


def layouts_of(path: PurePath) -> tuple[Any, ...]:
    """How the layouts of all readers of that kind of file match a path."""
    source = source_of(path).like
    matches = (layout_match(r.layout, path) for r in READERS if source in r.sources)
    return tuple(match for match in matches if match is not None)
