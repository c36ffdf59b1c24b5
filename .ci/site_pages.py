"""Hooks of mkdocs: documents outside docs/ become pages, and links between them hold on the site."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
START = "README.md"
_LINK = re.compile(r"(\[(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*\])\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the navigation that are no guide, and README.md as the first."""
    listed = re.findall(
        r"- (?:.+: )?([\w/.-]+\.md)$", Path(config.config_file_path).read_text(), re.M
    )
    for name in listed:
        if files.get_file_from_path(name) is None:
            source = ROOT / (START if name == "index.md" else name)
            files.append(File.generated(config, name, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn each link to a file of the repository into one to its page, or else into its text."""
    known = {_path_in_repository(file, config): file.src_uri for file in files}
    folder = PurePosixPath(_path_in_repository(page.file, config)).parent

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        path = os.path.normpath(folder / target)
        if path in known:
            start = PurePosixPath(page.file.src_uri).parent
            return f"{text}({os.path.relpath(known[path], start)}{anchor or ''})"
        # A broken link stays as it is, for mkdocs to refuse.
        return text[1:-1] if (ROOT / path).exists() else match[0]

    return _LINK.sub(link, markdown)


def _path_in_repository(file: File, config: MkDocsConfig) -> str:
    path = Path(file.abs_src_path or config.docs_dir)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else file.src_uri
