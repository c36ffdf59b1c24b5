"""`rollout-board completion`: a script that completes commands, options and their choices in a shell."""

from __future__ import annotations

import argparse
from typing import Final

from board.cli.parser import ARGUMENTS, COMMANDS

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


def _options(name: str) -> dict[str, str]:
    """The options of a command, each with its name in ARGUMENTS."""
    arguments = COMMANDS[name].arguments.replace("|", " ").split()
    return {one.partition("=")[0]: one for one in arguments if one.startswith("-")}


def _choices() -> dict[str, str]:
    """By option or command the words that may follow it, separated by spaces."""
    given = {
        name: ARGUMENTS[one] for command in COMMANDS for name, one in _options(command).items()
    }
    words = {name: one["choices"] for name, one in given.items() if "choices" in one}
    return {name: " ".join(one) for name, one in words.items()} | {
        "completion": " ".join(ARGUMENTS["shell"]["choices"])
    }


def _bash() -> str:
    options = (
        f'"{name} -"*) words="{" ".join([*_options(name), "--help"])}" ;;' for name in COMMANDS
    )
    choices = (f'{name}) words="{words}" ;;' for name, words in _choices().items())
    return _BASH.format(
        commands=" ".join(COMMANDS),
        default=" ".join(_options("serve")),  # `rollout-board PATH` is short for it
        options="\n".join(f"    {line}" for line in options),
        choices="\n".join(f"    {line}" for line in choices),
    )


def _fish() -> str:
    lines: list[str] = []
    choices = _choices()
    for name, command in COMMANDS.items():
        at = f"complete -c rollout-board -n '__fish_seen_subcommand_from {name}'"
        first = "complete -c rollout-board -n __fish_use_subcommand"
        lines.append(f"{first} -a {name} -d {_quoted(command.summary)}")
        if name in choices:
            lines.append(f"{at} -f -a {_quoted(choices[name])}")
        for option, argument in _options(name).items():
            about = ARGUMENTS[argument]
            value = "" if about.get("action") == "store_true" else " -r"
            if option in choices:
                value = f" -x -a {_quoted(choices[option])}"
            lines.append(f"{at} -l {option[2:]}{value} -d {_quoted(_summary(about['help']))}")
    return "\n".join(lines) + "\n"


def _summary(help_text: str) -> str:
    return help_text.partition("\n")[0].partition(" (%")[0].partition(";")[0]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
