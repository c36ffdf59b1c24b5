"""A wheel holds what the source holds of the packages: each module, script, style, table and licence."""

from pathlib import Path

import pytest
from setuptools import Distribution

import exporters
import rollout_board

ROOT = Path(__file__).parents[2]
PACKAGES = ("board", "exporters", "rollout_board")


@pytest.fixture(scope="module")
def packaged() -> set[Path]:
    """Files of the packages that setuptools would put into a wheel, by pyproject.toml alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        distribution = Distribution({"script_name": "setup.py"})
        distribution.parse_config_files(["pyproject.toml"])
        distribution.include_package_data = False  # else it writes a list of the sources first
        build = distribution.get_command_obj("build_py")
        build.ensure_finalized()
        data = {Path(folder, name) for _, folder, _, names in build.data_files for name in names}
        modules = {Path(file) for _, _, file in build.find_all_modules()}
    return {path.relative_to(ROOT) if path.is_absolute() else path for path in data | modules}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_of_a_package_is_in_the_wheel(package, packaged):
    files = (path for path in (ROOT / package).rglob("*") if path.is_file())
    files = {path.relative_to(ROOT) for path in files if "__pycache__" not in path.parts}
    assert files - packaged == set()


def test_nothing_else_is_in_the_wheel_that_another_package_may_be_called(packaged):
    assert {path.parts[0] for path in packaged} == set(PACKAGES)


def test_the_package_has_the_exporters_public_names():
    assert set(exporters.__all__) <= set(dir(rollout_board))
    assert rollout_board.RolloutExporter is exporters.RolloutExporter
    assert rollout_board.check_alignment is exporters.check_alignment
