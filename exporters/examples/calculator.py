"""The task of the example with tools: two environments, what they ask, and demonstrations of both.

In `expression` the model works out a calculation, in `shop` it adds up a bill whose prices only the
tools know. Every tool is a method of the environment, as TRL's `environment_factory` expects.
"""

from __future__ import annotations

import ast
import json
import operator
import random
import re
from dataclasses import dataclass, field
from typing import Any

ITEMS = ("pen", "mug", "cup", "hat", "bag", "lamp", "book", "ball")
SYSTEM = "Use the tools. End with Answer: N."

Message = dict[str, Any]

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_ANSWER = re.compile(r"Answer: (-?\d+)$")


class Calculator:
    """The environment `expression`: a calculator."""

    def reset(self, **_: object) -> None:
        """Nothing to remember from one problem to the next."""

    def calculate(self, expression: str) -> str:
        """Works out an expression.

        Args:
            expression: Whole numbers joined by +, - and *.

        Returns:
            The result.
        """
        try:
            return str(_value(ast.parse(expression, mode="eval").body))
        except (SyntaxError, ValueError):
            raise ValueError(f"can't calculate {expression!r}") from None


class Shop(Calculator):
    """The environment `shop`: a calculator and the prices of one problem."""

    def reset(self, prices: str = "{}", **_: object) -> None:
        """Takes over the prices of a problem, a JSON object {item: price}."""
        self._prices = json.loads(prices)

    def price(self, item: str) -> str:
        """Looks up what one item costs.

        Args:
            item: Name of the item, singular.

        Returns:
            The price.
        """
        if item not in self._prices:
            raise ValueError(f"no item {item!r}")
        return str(self._prices[item])


ENVIRONMENTS = {"expression": Calculator, "shop": Shop}


def _value(node: ast.expr) -> int:
    """Raises ValueError for anything but whole numbers joined by +, - and *."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("no expression")


@dataclass(frozen=True)
class Problem:
    """One problem: the question, the expression that answers it, and the prices it needs."""

    env: str
    question: str
    expression: str
    prices: dict[str, int] = field(default_factory=dict)

    @property
    def answer(self) -> int:
        """The right result."""
        return int(Calculator().calculate(self.expression))

    @property
    def prompt(self) -> list[Message]:
        """What the model is asked."""
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": self.question}]


def draw_problem(rng: random.Random) -> Problem:
    """A random problem of a random environment."""
    first, second = rng.randrange(2, 10), rng.randrange(2, 10)
    if rng.random() < 0.5:
        left, right = rng.randrange(11, 100), rng.randrange(11, 100)
        sign = rng.choice("+-")
        expression = f"{left}*{first}{sign}{right}"
        return Problem("expression", f"What is {left} * {first} {sign} {right}?", expression)
    prices = {item: rng.randrange(11, 100) for item in ITEMS}
    one, other = rng.sample(ITEMS, 2)
    question = f"What do {first} {one}s and {second} {other}s cost?"
    return Problem("shop", question, f"{first}*{prices[one]}+{second}*{prices[other]}", prices)


def demonstration(problem: Problem, rng: random.Random) -> list[Message]:
    """The assistant's and the tools' messages of one rollout, good or bad.

    Three in ten use the tools as they should; the others fumble a call first, answer from memory, or
    leave the expression wrong. What is better is for GRPO to find out.
    """
    kind = rng.choices(("good", "fumble", "memory", "careless"), (30, 35, 20, 15))[0]
    if kind == "memory":
        return [_says(f"Answer: {rng.randrange(20, 1200)}")]
    environment = ENVIRONMENTS[problem.env]()
    environment.reset(prices=json.dumps(problem.prices))
    turns: list[Message] = []
    if problem.env == "shop":
        turns += _look_up(environment, problem, rng, is_fumbled=kind == "fumble")
    expression = _careless(problem.expression, rng) if kind == "careless" else problem.expression
    if kind == "fumble" and (problem.env == "expression" or rng.random() < 0.5):
        turns += _turn(environment, "", ("calculate", expression.replace("*", " x ")))
    turns += _turn(environment, "", ("calculate", expression))
    return [*turns, _says(f"Answer: {turns[-1]['content']}")]


def _look_up(
    environment: Any, problem: Problem, rng: random.Random, *, is_fumbled: bool
) -> list[Message]:
    """The turns that ask for both prices: at once or one after the other; by a wrong name first."""
    named = re.findall(r"\d+ (\w+)s", problem.question)
    turns: list[Message] = []
    if is_fumbled:
        turns += _turn(environment, "The prices.", *(("price", f"{item}s") for item in named))
    if rng.random() < 0.5:
        return turns + _turn(environment, "The prices.", *(("price", item) for item in named))
    for item in named:
        turns += _turn(environment, f"The {item}.", ("price", item))
    return turns


def _careless(expression: str, rng: random.Random) -> str:
    """The expression with one of its numbers changed."""
    numbers = list(re.finditer(r"\d+", expression))
    wrong = rng.choice(numbers)
    return f"{expression[: wrong.start()]}{rng.randrange(2, 100)}{expression[wrong.end() :]}"


def _turn(environment: Any, text: str, *calls: tuple[str, str]) -> list[Message]:
    """What the assistant says and calls, and what the tools return, in TRL's messages."""
    arguments = {"calculate": "expression", "price": "item"}
    tool_calls = [
        {"type": "function", "function": {"name": name, "arguments": {arguments[name]: value}}}
        for name, value in calls
    ]
    turn = [{**_says(text), "tool_calls": tool_calls}]
    for name, value in calls:
        try:
            content = getattr(environment, name)(value)
        except ValueError as error:
            content = str({"error": str(error)})
        turn.append({"role": "tool", "name": name, "content": content})
    return turn


def _says(text: str) -> Message:
    return {"role": "assistant", "content": text}


def correct(completions: list[list[Message]], ground_truth: list[str], **_: object) -> list[float]:
    """1 where the last message is of the assistant and ends with the right answer."""
    last = [completion[-1] if completion else _says("") for completion in completions]
    matches = [m["role"] == "assistant" and _ANSWER.search(m["content"]) for m in last]
    return [
        float(bool(match) and match[1] == truth)
        for match, truth in zip(matches, ground_truth, strict=True)
    ]


def tool_errors(completions: list[list[Message]], **_: object) -> list[float]:
    """-0.2 for every call that failed."""
    return [0.0 - 0.2 * sum(map(_has_failed, completion)) for completion in completions]


def _has_failed(message: Message) -> bool:
    return message["role"] == "tool" and message["content"].startswith("{'error': ")


REWARDS = [correct, tool_errors]
