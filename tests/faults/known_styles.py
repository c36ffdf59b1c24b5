"""Styles that were at hand while the patterns of causes were written."""

from faults.styles import CODE, SEARCH, both, broken, ends, finishes, honest, notes, nothing, says

_REASONED = ("native", "tokens", "generic", "verifiers", "nested")
"""Formats that record why a rollout ended."""
_NAMED = ("native", "tokens", "verifiers")
"""Formats that record the names of tools."""
_LIBRARIES = """Traceback (most recent call last):
  File "/usr/lib/python3.12/asyncio/tasks.py", line {n}, in wait_for
    return await fut
  File "/opt/app/.venv/lib/python3.12/site-packages/aiohttp/client.py", line {n}, in _request
    conn = await self._connector.connect(req)
ConnectionResetError: [Errno 104] Connection reset by peer"""
_PROGRAM = """Traceback (most recent call last):
  File "/tmp/tmp{x}/main.py", line {n}, in <module>
    fetch()
  File "/usr/lib/python3.12/site-packages/requests/adapters.py", line {n}, in send
    raise ConnectionError(e)
requests.exceptions.ConnectionError: Connection refused"""

broken("reset in a traceback of a search", ends(SEARCH, _LIBRARIES), *_NAMED)
broken("reset in a traceback of libraries alone", ends(CODE, _LIBRARIES))
broken(
    "sandbox did not start",
    ends(CODE, "sandbox could not be started", "Failed to create sandbox {x}"),
)
broken("connection error recorded", notes("error", "ConnectionResetError: [Errno 104] reset"))
broken(
    "exception of the harness", notes("harness_exception", "RuntimeError: engine process exited")
)
broken("exit code 137", notes("exit_code", 137, 139))
broken("mask and nothing generated", both(nothing, notes("mask_sample", True)))
broken("reward was none", both(nothing, notes("reward_was_none", True)))
broken("finish reason error", finishes("error"), *_REASONED)
broken("finish reason abort", finishes("abort", "aborted"), *_REASONED)
broken("nothing generated", nothing)
broken("judge in a note", notes("judge_note", "Judge request failed after 3 retries: HTTP 503"))
broken("error of a judge, in camel case", notes("verifier.judgeError", "timed out after {s} s"))
broken("an exception for a response", says("litellm.InternalServerError: Connection error."))
broken("a page for a response", says("<html><head><title>502 Bad Gateway</title></head></html>"))
broken(
    "a status in JSON",
    ends(SEARCH, '{"error": {"code": 503, "message": "backend is down"}}'),
    *_NAMED,
)
broken("MCP timed out", ends(SEARCH, "MCP error -32001: Request timed out"), *_NAMED)
broken(
    "CUDA out of memory", notes("exception", "torch.OutOfMemoryError: CUDA out of memory. {n} MiB")
)
broken(
    "NCCL watchdog",
    notes("rollout_error", "Watchdog caught collective operation timeout on rank {n}"),
)
broken(
    "engine died", notes("generation_error", "EngineDeadError: EngineCore encountered an issue.")
)
broken("actor died", notes("workerException", "ray.exceptions.ActorDiedError: the actor {x} died"))
broken("no container", notes("env_error", "docker.errors.NotFound: No such container: {x}"))
broken("pod killed", notes("podStatus", "OOMKilled", "Evicted"))
broken(
    "page of a browser closed",
    ends(("browser_click",), "Target page, context or browser has been closed"),
)
broken(
    "database gone",
    ends(("sql_lookup",), "OperationalError: server closed the connection unexpectedly"),
    *_NAMED,
)
broken("gRPC", ends(SEARCH, "StatusCode.UNAVAILABLE: failed to connect to all addresses"), *_NAMED)
broken("no space", notes("error", "[Errno 28] No space left on device: '/data/{x}'"))
broken("an odd sentence of a tool", ends(SEARCH, "the shelf {n} is being rearranged, come again"))
broken("container lost", notes("outcome", "container_lost", "SandboxUnavailable"))
broken(
    "kernel died", ends(CODE, "Kernel died unexpectedly, restarting", "kernel is not responding")
)

honest("a wrong number", says("The answer is {n}.", "So we get \\boxed{{n}}"))
honest("a refusal", says("I am sorry, but I can't help with that."))
honest("raised in its program", ends(CODE, _PROGRAM))
honest(
    "printed a refused connection",
    ends(CODE, "Connection refused", "curl: (7) Failed to connect to port {p}"),
)
honest("nothing found", ends(SEARCH, "No results found.", "[]"))
honest("a tool with bad arguments", ends(SEARCH, "Error: missing required argument 'query'"))
honest("tests that fail", ends(CODE, "{n} failed, 3 passed in {s}s: AssertionError"))
honest(
    "an explanation of a status", says("A 503 means that the service is unavailable, so we wait.")
)
honest(
    "an explanation of an exception", says("ConnectionResetError is raised when the peer closes.")
)
honest("a wrong answer recorded", notes("error", "wrong answer: expected {n} but got 3"))
honest("a status of a grade", notes("status", "wrong_answer", "incorrect"))
honest("a verdict on a program", notes("verdict", "Runtime Error", "Time Limit Exceeded"))
honest("an answer that can't be parsed", notes("parse_error", "no \\boxed{} in the response"))
honest(
    "a judge on timeouts",
    notes("judge_feedback", "The answer ignores the timeout of {s} s and is wrong."),
)
honest(
    "a judge on a status",
    notes("judge_feedback", "The student returns HTTP 503 where 404 is asked for."),
)
honest("failed tests by name", notes("failed_tests", ["test_sum", "test_{w}"]))
honest("a flag of the grade", notes("failed", True))
honest("an exit code of its command", notes("command_exit_code", 137, 1))
honest("an exit code of 1", notes("exit_code", 1))
honest("counts and rates", notes("error_rate", 0.25, 1.0))
honest("an error of a task's data", notes("task.error_message", "KeyError in the loader"))
honest("a syntax error of its program", notes("error", "SyntaxError: invalid syntax (line {n})"))
honest("an action that is none", notes("env_error", "invalid action: move {n}"))
honest("a tool that is none", ends(SEARCH, "Unknown tool: serach", "unknown function lookup{n}"))
honest("a text that is not there", ends(("read_file",), "FileNotFoundError: {w}.txt"))
honest("permission denied", ends(CODE, "bash: /root/{w}: Permission denied"))
honest(
    "a page that is not there",
    ends(("browse", "fetch_url"), "HTTP error: 404", "503 Service Unavailable"),
)
honest("an order that is not there", ends(("get_order",), "Error: order {x} not found"))
honest("a loop", notes("termination", "stuck_in_loop", "repeated_format_error"))
honest("an end of text alone", says("..."))
