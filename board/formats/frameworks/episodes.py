"""Episodes of verifiers v1, as its evaluations and prime-rl write them: a line holds all its traces.

Read from PrimeIntellect-ai/verifiers@a60a606 and 0.4.0 verifiers/v1/{episode,trace,graph}.py and
PrimeIntellect-ai/prime-rl@559b447 src/prime_rl/monitors/file.py. Layouts: `traces.jsonl` of an
evaluation; `rollouts/step_N/{train,eval}/{all,effective}/traces.jsonl`, where an admitted episode stands
in both; since e3fdaded `traces/stream/NNNNN.jsonl` with annotations (annotations.py); before episodes,
`step_N/{train,eval}_rollouts.jsonl` with a trace per line.

A trace is a graph of messages; each way from a root to a leaf is a branch, and one training sample. Each
is shown, and the scores stand with the last one, whose messages verifiers calls the trace's. Per-token
lists of a message hold a value for each sampled token (mask true), and nothing for others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Head, Join, LineContext, Reader
from board.formats.episode_nodes import Overlay, paths_of
from board.formats.failures import failure_of
from board.formats.failures.episodes import failure_of_trace
from board.formats.field_values import FAILURE
from board.formats.fields import RecordBuilder
from board.formats.frameworks.annotations import Annotations, annotation_files
from board.formats.io.locations import Location, Objects, pure_path
from board.formats.messages import is_messages
from board.formats.parse import as_object, is_measure, is_object, object_at, objects_in
from board.formats.sequences import TOKENS_JOINED_BY, take_pieces, tokens_key

_Object = Mapping[str, Any]

_TRUNCATING: Final = (
    *("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens"),
    *("context_length", "compaction_failed"),
)


_READ: Final = frozenset(
    (
        *("id", "version", "verifiers", "env", "task", "agent", "nodes", "calls", "rewards"),
        *("info", "metrics", "is_completed", "ok", "stop_condition", "error", "errors"),
        *("timing", "traces", "run", "group"),
    )
)
"""Keys of episodes and of traces that are read, or say nothing of a rollout."""
_PHASES: Final = ("boot", "setup", "agent", "finalize", "scoring")
"""Phases of a trace; the columns of their seconds are these names with `_s`."""
_PARTS_OF_AGENT: Final = ("model", "harness")
_READ_OF_TASK: Final = frozenset(("prompt", "answer", "artifact_max_bytes"))


class EpisodesReader(Reader):
    """Reads episodes, and lines that are a trace alone."""

    name = "episodes"
    title = "verifiers episodes"
    left_out: Mapping[str, str] = {
        "task.data.artifact_max_bytes": "a limit of the harness",
        "task.hash": "an id of the framework that nothing else refers to",
        "run.id": "an id of the framework that nothing else refers to",
        "traces.task": "that of the episode, once more",
        **{
            f"{of_trace}{path}": reason
            for of_trace in ("", "traces.")
            for path, reason in (
                ("agent.config", "how the agent was set up, the same for all rollouts"),
                ("rewards", "score and weight of each part: the parts and their sum are shown"),
                ("nodes.parent", "the place of the message in its branch"),
                (
                    "nodes.timestamp",
                    "when a message was; the reader shows the seconds between them",
                ),
                ("calls", "calls of the model: the messages have their texts"),
                ("version", "the version of the layout"),
                ("verifiers", "the version of verifiers"),
                *(
                    (f"timing.{phase}", "the seconds of each phase are columns")
                    for phase in _PHASES
                ),
            )
        },
        **{
            f"num_{kind}_tokens": "of an episode the sum over its traces, of which each has its own"
            for kind in ("input", "output", "total")
        },
    }
    layout = re.compile(
        r"(?:monitors/file/)?traces/stream(?:/[0-9]+)?\.jsonl(?:\.zst)?"
        r"|(?:rollouts/)?step_(?P<step>[0-9]+)/(?P<split>train|eval)"
        r"(?:/(?P<subset>all|effective)/traces|_rollouts(?:_[^/]+)?)\.jsonl"
        r"|traces\.jsonl"
    )
    repeats = "unique_id"
    join = Join("prime_rl", TOKENS_JOINED_BY, "traces")

    def recognises(self, head: Head) -> bool:
        """An episode's task and traces, or a trace's task, agent and nodes."""
        return any(
            isinstance(record.get("task"), dict)
            and (
                (isinstance(record.get("traces"), list) and "id" in record)
                or (isinstance(record.get("nodes"), list) and "rewards" in record)
            )
            for record in head.records
        )

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        is_stream = "stream" in (log.parent.name, pure_path(log).stem)
        return annotation_files(log, objects) if is_stream else ()

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        """All token ids of the branch; none of evaluations, which no trainer sees."""
        return (tokens_key(record) if record.ids.get("split") == "train" else None,)

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """{episode, trace, branch, branches} of each branch of each trace; of no trace, one without."""
        if "traces" not in line:
            return list(_branches({}, line, ""))
        episode = {key: value for key, value in line.items() if key != "traces"}
        traces = objects_in(line["traces"])
        names = {str(object_at(trace, "agent").get("name")) for trace in traces}
        rows = [
            row
            for trace in traces
            for row in _branches(episode, trace, _agent(trace) if len(names) > 1 else "")
        ]
        return rows or [{"episode": episode, "trace": None}]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options)
        episode, trace = line["episode"], line["trace"]
        if trace is None:
            _take_failure(builder, episode)
            return _built(builder, episode, {}, at)
        overlay = Overlay(trace, builder)
        info = overlay.fold(_updates(at, trace, builder), dict(object_at(trace, "info")))
        branch: int = line["branch"]
        path = overlay.paths[branch] if overlay.paths else ()
        _take_turns(builder, trace, [overlay.nodes[i] for i in path])
        try:
            take_pieces(builder, [overlay.piece(i) for i in path])
        except RecordError as error:
            reason = f"tokens are not shown: {error.reason}"
            builder.remark("token_ids", reason, f"expected: {error.hint}")
        _take_ids(builder, line)
        if line["branch"] == line["branches"] - 1:
            _take_scores(builder, trace, info)
            builder.take(FAILURE, failure_of_trace(line["episode"], trace))
        else:
            hint = "the scores stand with the last one"
            builder.note("branch", "its trace has several branches", hint)
        _take_other_keys(builder, line, info)
        return _built(builder, episode or trace, info, at)


def _agent(trace: _Object) -> str:
    return str(object_at(trace, "agent").get("name", ""))


def _branches(episode: _Object, trace: _Object, agent: str) -> Iterator[_Object]:
    """A row for each branch. agent: where the agents of an episode have different parts."""
    count = max(len(paths_of(objects_in(trace.get("nodes")))), 1)
    shared = {"episode": episode, "trace": trace, "branches": count, "among": agent}
    yield from ({**shared, "branch": branch} for branch in range(count))


def _updates(at: LineContext, trace: _Object, builder: RecordBuilder) -> Iterator[_Object]:
    """The updates of a trace; those that can't be had are named, and cost the others nothing."""
    try:
        annotations = at.sidecar(Annotations)
        if annotations is not None:
            yield from annotations.of(str(trace.get("id")))
    except OSError as error:
        reason = str(error.strerror or error)
        builder.remark("annotations", "annotations can't be read", reason)


def _take_turns(builder: RecordBuilder, trace: _Object, nodes: Sequence[_Object]) -> None:
    """The messages of a branch; what was given ends where the model spoke first."""
    messages = [
        {
            **object_at(node, "message"),
            **({"timestamp": at} if (at := node.get("timestamp")) else {}),
        }
        for node in nodes
    ]
    first = next((i for i, node in enumerate(nodes) if node.get("sampled")), len(nodes))
    builder.take_turns(messages[:first], messages[first:])
    task = object_at(trace, "task")
    if not messages:
        _take_task(builder, task)
    builder.take("ground_truth", object_at(task, "data").get("answer"))


def _take_task(builder: RecordBuilder, task: _Object) -> None:
    """What was to be done, where nothing of it was said."""
    prompt = object_at(task, "data").get("prompt")
    builder.take("prompt", prompt if isinstance(prompt, str) or is_messages(prompt) else None)


def _take_ids(builder: RecordBuilder, line: _Object) -> None:
    episode, trace = line["episode"], line["trace"]
    last = line["branch"] == line["branches"] - 1
    builder.take("rollout_id", f"{trace.get('id')}" + ("" if last else f"/{line['branch']}"))
    if line["among"]:
        group = _group(episode, trace)
        builder.take("group_id", None if group is None else f"{group}/{line['among']}")
    builder.take("timestamp", object_at(trace, "timing").get("start"))


def _group(episode: _Object, trace: _Object) -> str | None:
    """The group that was dispatched; where there are none, all attempts at a task."""
    if (group := object_at(episode, "group").get("id")) is not None:
        return str(group)
    task = object_at(trace or episode, "task")
    key = task.get("key") or task.get("hash")
    return None if key is None else str(key)


def _take_scores(builder: RecordBuilder, trace: _Object, info: _Object) -> None:
    rewards = {name: as_object(reward) for name, reward in object_at(trace, "rewards").items()}
    pairs = [(reward.get("score"), reward.get("weight", 1.0)) for reward in rewards.values()]
    values = [score * weight for score, weight in pairs if is_measure(score) and is_measure(weight)]
    scores = {name: reward.get("score") for name, reward in rewards.items()}
    odd = [
        name
        for name, reward in object_at(trace, "rewards").items()
        if reward is not None and not (is_object(reward) and _is_usable(reward))
    ]
    if odd:
        hint = "expected: {score, weight} of numbers, the score null where it was not scored"
        builder.remark("reward", f"{odd[0]} is no part of a reward, and not in the sum", hint)
    builder.take_rewards(scores, sum(values) if values else None)
    builder.take("advantage", info.get("advantage"))
    builder.extras |= object_at(trace, "metrics")
    calls = [call for call in objects_in(trace.get("calls")) if not call.get("error")]
    finish = calls[-1].get("finish_reason") if calls else None
    stop = trace.get("stop_condition")
    builder.take("finish_reason", finish or stop)
    if stop is not None or finish is not None:
        builder.take("is_truncated", stop in _TRUNCATING or finish == "length")


def _take_other_keys(builder: RecordBuilder, line: _Object, info: _Object) -> None:
    trace = line["trace"]
    builder.take_extra("agent", _agent(trace) or None)
    builder.take_extra("trainable", object_at(trace, "agent").get("trainable"))
    builder.take_extra("stop_condition", trace.get("stop_condition"))
    _take_errors(builder, trace if trace.get("errors") else line["episode"])
    builder.take_extra("branch", line["branch"] if line["branches"] > 1 else None)
    builder.take_extra("episode", line["episode"].get("id"))
    builder.take_extra("info", info or None)
    _take_timing(builder, object_at(trace, "timing"))
    builder.take_rest({**line["episode"], **trace}, _READ)


def _is_usable(reward: _Object) -> bool:
    """Whether a part has a score, or none that was given, and a weight."""
    score = reward.get("score")
    return (score is None or is_measure(score)) and is_measure(reward.get("weight", 1.0))


def _take_timing(builder: RecordBuilder, timing: _Object) -> None:
    """The seconds of each phase that took some, and of the agent's those of the model and its harness."""
    agent = object_at(timing, "agent")
    spent = {phase: _passed(object_at(timing, phase)) for phase in _PHASES}
    spent |= {part: object_at(agent, part).get("duration") for part in _PARTS_OF_AGENT}
    for name, seconds in spent.items():
        builder.take_extra(f"{name}_s", seconds or None)


def _passed(phase: _Object) -> float | None:
    begin, end = phase.get("start"), phase.get("end")
    return end - begin if is_measure(begin) and is_measure(end) else None


def _take_failure(builder: RecordBuilder, episode: _Object) -> None:
    """An episode that failed before any trace: what was to be done, and what went wrong."""
    _take_task(builder, object_at(episode, "task"))
    builder.take("rollout_id", episode.get("id"))
    _take_errors(builder, episode)
    if "error" not in builder.extras:
        builder.take("error", "the episode has no trace")
    failure = failure_of_trace(episode, {}) or failure_of("unknown", {"traces": "none"})
    builder.take(FAILURE, failure)


def _take_errors(builder: RecordBuilder, of: _Object) -> None:
    """The last error as a sentence; where it says more, or there were others, all of them too."""
    errors = objects_in(of.get("errors"))
    if not errors:
        return
    builder.take_extra("error", f"{errors[-1].get('type')}: {errors[-1].get('message')}")
    if len(errors) > 1 or errors[-1].keys() - {"type", "message"}:
        builder.take_extra("errors", errors)


def _built(builder: RecordBuilder, episode: _Object, info: _Object, at: LineContext) -> Record:
    """The Record, with what the episode, its folder and its annotations say of when and whose."""
    run = object_at(episode, "run")
    work, env = object_at(run, "work"), object_at(episode, "env")
    builder.take("env", env.get("name") or env.get("id") or None)
    if "group_id" not in builder.ids:
        builder.take("group_id", _group(episode, {}))
    split = at.split or info.get("kind") or work.get("type") or run.get("type") or "eval"
    builder.take("split", split)
    policy, subset = object_at(work, "policy"), at.named("subset")
    builder.take("policy_version", policy.get("start"))
    effective = info.get("effective") if subset is None else subset == "effective"
    builder.take_extra("effective", effective)
    builder.take_extra("env_id", env.get("id"))
    builder.take_extra("task_key", object_at(episode, "task").get("key"))
    task = object_at(object_at(episode, "task"), "data")
    data = {k: v for k, v in task.items() if k not in _READ_OF_TASK and v not in (None, "", [], {})}
    builder.take_extra("task_data", data or None)
    builder.take_extra("run_name", run.get("name"))
    builder.take_extra("dispatch_step", work.get("step"))
    builder.take_extra("policy_version_end", policy.get("end"))
    steps = (at.step, object_at(info, "ship").get("step"), work.get("step"))
    step = next((step for step in steps if step is not None), None)
    return builder.build_undated() if step is None else builder.build(step)
