"""Which field of a rollout a key is of by the words in its name, whatever stands before and behind them.

`decoded_completion` is a completion, `scalar_reward` a reward, `response_token_ids` are token ids. A key
whose words say that it is the task's own (reference, expected, gold) is never what the model generated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from board.core.records import is_number
from board.formats.parse import is_list, is_texts

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_JOINED: Final = {"logprob": "logprobs", "logps": "logprobs", "logp": "logprobs", "gts": "gt"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


REFERENCES: Final = _words(
    "ref refs reference references expected expect gold golden target targets gt truth ground "
    "label labels solution solutions oracle canonical correct answer answers teacher "
    "demonstration chosen rejected doc test tests"
)
"""Words of what belongs to the task."""
_ASIDE: Final = _words(
    "id ids idx index uid uuid hash key name type kind format role length len count num size "
    "tokens token mask cost usage price path file files dir url uri model engine config "
    "params version status reason code error language lang template schema tag source time "
    "times at date timestamp seconds latency ms duration tool tools feedback critique judge "
    "judgement judgment comment system negative reward score logprobs probability parser "
    "rubric metric summary title"
)
"""Words of what is said about a text, and is not the text."""
_RESPONSE: Final = _words(
    "completion completions response responses generation generations generated output "
    "outputs prediction predictions rollout assistant sampled reply trajectory transcript"
)
_PROMPT: Final = _words("prompt prompts question query instruction problem input")
_GIVEN: Final = _PROMPT | {
    "inputs",
    "ask",
    "user",
    "queries",
    "request",
    "config",
    "params",
    "extra",
    "info",
}
"""Words of keys below which nothing is that the model generated."""
_TEXTS: Final = frozenset({"prompt", "response", "ground_truth", "group_id", "finish_reason"})
_OTHER_TEXTS: Final = _words(
    "text out content user ask answer label target gold expected gt solution id uid group "
    "output_text input_text"
)
_TASKS: Final = frozenset(
    {"prompt", "problem", "task", "group", "question", "query", "instance", "example"}
)
_IDS: Final = frozenset({"id", "uid", "uuid", "idx"})
_STEPS: Final = frozenset({"step", "steps", "iteration", "iter", "update"})
_NO_STEP: Final = _words(
    "max min num n per total count env turn episode sub micro warmup save log inference "
    "reasoning time last end is done tool steps agent action batch eval size interval every "
    "ratio limit"
)
_TOTAL: Final = frozenset(
    {"total", "final", "scalar", "overall", "combined", "sum", "episode", "raw"}
)
_NO_REWARD: Final = _words(
    "mean avg average std min max var weight model baseline coef advantage time step "
    "threshold delta ema fn func function normalized penalty kl token num count type name id "
    "scale clip pred running"
)
_OLD: Final = frozenset({"old"})
_SAMPLED: Final = frozenset(
    {"sampling", "sampler", "rollout", "behavior", "behaviour", "inference", "vllm"}
)
_REFERENCE_POLICY: Final = frozenset({"ref", "reference"})


def words_of(name: str) -> tuple[str, ...]:
    """The words of a key's name in small letters: of `rawCompletion_2` raw, completion and 2."""
    terms = [word.lower() for word in _WORDS.findall(name)]
    joined = re.sub(r"\blog (probs?|probabilities)\b", "logprobs", " ".join(terms))
    return tuple(_JOINED.get(word, word) for word in joined.split())


def is_reference(name: str) -> bool:
    """Whether a key is by its words what the task expects, and not what the model generated."""
    return not REFERENCES.isdisjoint(words_of(name))


def holds_texts(name: str) -> bool:
    """Whether a key is by its name one of texts, whatever its values look like: an answer may be `42`."""
    return field_of(name, "") in _TEXTS or name.lower() in _OTHER_TEXTS


def field_of(name: str, value: object) -> str:
    """The field of a rollout that a key is of by the words of its name and the kind of its value; empty
    where they say none.
    """
    names = words_of(name)
    terms = frozenset(names)
    if isinstance(value, str):
        # A model_output is the output of a model, an output_model the name of one.
        return _field_of_text(terms - {"model"} if names[-1:] != ("model",) else terms)
    if is_list(value):
        return _field_of_list(terms, value)
    if isinstance(value, bool) or is_number(value):
        return _field_of_number(terms, value)
    return ""


def fields_by_words(values: Iterable[tuple[str, Any]], known: Mapping[str, str]) -> dict[str, str]:
    """From fields to paths, of the fields that are not known yet, what the words of keys say.

    values: paths and their values. Of a reward that several keys could be they are the parts, unless one
    of them alone is called the total.
    """
    used = set(known.values())
    by_field: dict[str, list[str]] = {}
    for path, value in values:
        field = "" if path in used else field_of(path.rpartition(".")[2], value)
        if field and field not in known and not _is_of_task(path, field):
            by_field.setdefault(field, []).append(path)
    if len(rewards := by_field.get("reward", ())) > 1:
        totals = [path for path in rewards if _TOTAL & set(words_of(path))]
        sure = [path for path in rewards if "correct" not in words_of(path)]
        chosen = totals if len(totals) == 1 else sure if len(sure) == 1 else []
        by_field["reward"] = chosen
        if not chosen and "rewards" not in known:
            by_field |= {
                f"rewards.{path.rpartition('.')[2]}": [path] for path in _of_one_object(rewards)
            }
    return {
        field: min(paths, key=lambda path: len(words_of(path)))
        for field, paths in by_field.items()
        if paths
    }


def _of_one_object(paths: Sequence[str]) -> Sequence[str]:
    """Those that are called a reward and are beside the first of them; none where it is alone."""
    named = [path for path in paths if "reward" in words_of(path.rpartition(".")[2])]
    beside = [path for path in named if path.rpartition(".")[0] == named[0].rpartition(".")[0]]
    return beside if len(beside) > 1 else ()


def _is_of_task(path: str, field: str) -> bool:
    """Whether a nested key lies below one of the task, or of what the model was given."""
    above = frozenset(words_of(path.rpartition(".")[0]))
    if field in ("response", "response_ids", "logprobs", "loss_mask", "reward"):
        return bool(above & (REFERENCES | _GIVEN))
    return field in ("step", "group_id", "finish_reason") and bool(above & {"config", "params"})


def _field_of_text(terms: frozenset[str]) -> str:
    if {"finish", "reason"} <= terms or {"stop", "reason"} <= terms:
        return "finish_reason"
    if terms & _TASKS and terms & _IDS:
        return "group_id"
    if terms & _ASIDE:
        return ""
    is_of_task = bool(terms & REFERENCES)
    if terms & _RESPONSE and not is_of_task:
        return "response"
    if is_of_task and terms & {
        "answer",
        "answers",
        "solution",
        "truth",
        "gold",
        "reference",
        "expected",
        "gt",
    }:
        return "ground_truth"
    return "prompt" if terms & _PROMPT and not is_of_task else ""


def _field_of_list(terms: frozenset[str], value: list[Any]) -> str:
    if is_texts(value):  # of several rollouts
        field = _field_of_text(terms)
        return field if field in ("response", "prompt", "group_id", "ground_truth") else ""
    if not value or not all(map(is_number, value)):
        return ""
    if terms & {"rewards", "scores"} and not terms & (_NO_REWARD - {"func"}):
        return "reward"
    if "logprobs" in terms:
        if terms & _REFERENCE_POLICY:
            return "ref_logprobs"
        if terms & _OLD:
            return "old_logprobs"
        return "sampling_logprobs" if terms & _SAMPLED else "" if terms & REFERENCES else "logprobs"
    if terms & REFERENCES or not all(isinstance(entry, int) for entry in value):
        return ""
    if "mask" in terms and terms & (_RESPONSE | {"loss", "action"}) and set(value) <= {0, 1}:
        return "loss_mask"
    if terms & {"ids", "tokens"} and "mask" not in terms:
        is_given, is_generated = bool(terms & _PROMPT), bool(terms & _RESPONSE)
        if is_given != is_generated:
            return "prompt_ids" if is_given else "response_ids"
    return ""


def _field_of_number(terms: frozenset[str], value: object) -> str:
    if terms & _TASKS and terms & _IDS and not isinstance(value, bool):
        return "group_id"
    if terms & {"advantage", "advantages"} and not terms & {"mean", "std", "min", "max"}:
        return "advantage"
    is_reward = bool(terms & {"reward", "score", "return"}) and not isinstance(value, bool)
    if (is_reward or terms & {"correct", "solved", "success"}) and not terms & _NO_REWARD:
        is_verdict = isinstance(value, bool) or value in (0, 1)
        return "reward" if is_reward or is_verdict else ""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    counted = {"num", "n", "idx"} if terms & {"global", "training", "train"} else set[str]()
    return "step" if is_whole and terms & _STEPS and not (terms - counted) & _NO_STEP else ""


def without_shared_ids(keys: Mapping[str, str], ids: Sequence[object]) -> dict[str, str]:
    """Return keys by field without a rollout_id that rollouts share; ids: of some rollouts.

    slime calls the number of a training step so: whole numbers that rollouts share are the step, where
    there is no other.
    """
    count = Counter(map(str, ids))
    shared = sum(n for n in count.values() if n > 1)
    if "rollout_id" not in keys or 2 * shared <= len(ids):
        return dict(keys)
    rest = {field: path for field, path in keys.items() if field != "rollout_id"}
    if "step" not in keys and all(isinstance(n, int) and not isinstance(n, bool) for n in ids):
        rest["step"] = keys["rollout_id"]
    return rest
