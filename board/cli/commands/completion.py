"""`rollout-board completion`: a script that completes commands, options and their choices in a shell."""

from __future__ import annotations

import argparse
import re
from typing import Final

from board.cli.parser import COMMANDS, build_parser

# Where nothing is offered, the shell completes names of files.
_BASH: Final = """\
_rollout_board() {{
  local words="" current="${{COMP_WORDS[COMP_CWORD]}}"
  case "${{COMP_WORDS[1]}} $current" in
{options}
    *" -"*) words="{default}" ;;
  esac
  case "${{COMP_WORDS[COMP_CWORD-1]}}" in
{choices}
  esac
  if [ "$COMP_CWORD" = 1 ]; then words="{commands} --help --version"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _rollout_board rollout-board
"""
_ZSH: Final = """\
autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""


def completion(args: argparse.Namespace) -> int:
    """Prints the script of one shell."""
    print(
        _fish() if args.shell == "fish" else (_ZSH if args.shell == "zsh" else "") + _bash(), end=""
    )
    return 0


def _commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    actions = build_parser()._actions
    return next(a.choices for a in actions if isinstance(a, argparse._SubParsersAction))


def _options(command: argparse.ArgumentParser) -> str:
    return " ".join(name for action in command._actions for name in action.option_strings)


def _choices() -> dict[str, str]:
    """By option, or command, the words that may follow it, separated by spaces."""
    return {
        name: " ".join(map(str, action.choices))
        for command, parser in _commands().items()
        for action in parser._actions
        if action.choices
        for name in action.option_strings or (command,)
    }


def _bash() -> str:
    commands = _commands()
    options = (f'    "{name} -"*) words="{_options(own)}" ;;' for name, own in commands.items())
    choices = (f'    {name}) words="{words}" ;;' for name, words in _choices().items())
    return _BASH.format(
        commands=" ".join(commands),
        options="\n".join(options),
        default=_options(commands["serve"]),  # `rollout-board PATH` is short for it
        choices="\n".join(choices),
    )


def _fish() -> str:
    lines: list[str] = []
    choices = _choices()
    for name, command in _commands().items():
        first = f"complete -c rollout-board -n __fish_use_subcommand -a {name}"
        after = f"complete -c rollout-board -n '__fish_seen_subcommand_from {name}'"
        lines.append(f"{first} -d {_quoted(COMMANDS[name].summary)}")
        if name in choices:
            lines.append(f"{after} -f -a {_quoted(choices[name])}")
        for action in command._actions:
            for option in action.option_strings:
                flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                value = "" if action.nargs == 0 else " -r"
                if option in choices:
                    value = f" -x -a {_quoted(choices[option])}"
                lines.append(f"{after} {flag}{value} -d {_quoted(_summary(action.help))}")
    return "\n".join(lines) + "\n"


def _summary(text: str | None) -> str:
    """The beginning of a help text, as far as it is short."""
    return re.split(r"\n|; | \(", text or "", maxsplit=1)[0]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
