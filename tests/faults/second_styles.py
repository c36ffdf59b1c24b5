"""Styles that were written when the patterns of causes had been widened once. After what public
issues report of inspect_k8s_sandbox#39, OpenSandbox#1641, kubernetes#68885, kata-containers#2340,
centaur#498, BrowserGym#103, 158 and 210, AgentBoard#26, TradingAgents#555, verl#1525 and 7697; the facts
are theirs, the words are not.
"""

from functools import partial

from faults import styles
from faults.styles import CODE, SEARCH, ends, finishes, notes, nothing, says

broken, honest = (partial(add, written="later") for add in (styles.broken, styles.honest))
_REASONED = ("native", "tokens", "generic", "verifiers", "nested")
_NAMED = ("native", "tokens", "verifiers")
_OWN_REQUEST = """Traceback (most recent call last):
  File "/home/user/crawl_{w}.py", line {n}, in <module>
    r = httpx.get(url)
  File "/usr/lib/python3.12/site-packages/httpx/_transports/default.py", line {n}, in map_exc
    raise mapped_exc(message) from exc
httpx.ConnectTimeout: timed out"""

broken(
    "a handshake with a pod",
    notes(
        "k8s_error", 'Handshake status 500 Internal Server Error: container not found ("default")'
    ),
)
broken(
    "a pod that was changed",
    notes("event", "Pod sandbox changed, it will be killed and re-created"),
)
broken(
    "a pod that stays pending",
    notes("sandbox.state", "Pending: 0/12 nodes are available: insufficient memory"),
)
broken(
    "a task of containerd",
    notes("startup_error", "rpc error: code = Unavailable desc = transport is closing"),
)
broken(
    "a reset that fails",
    notes(
        "env_reset_exception",
        "playwright._impl._errors.TimeoutError: Page.goto: Timeout {s}000ms exceeded.",
    ),
)
broken(
    "a login of the harness",
    notes("setup_failure", "AssertionError: Session refresh failed for reddit, shopping"),
)
broken("a killed process of the harness", notes("agent_process.exitCode", 137, -9))
broken(
    "a fork that fails",
    ends(CODE, "OSError: [Errno 12] Cannot allocate memory: executor can not fork"),
)
broken(
    "a queue of a code runner",
    ends(CODE, "Execution service is at capacity, request {x} was dropped"),
)
broken(
    "a runner that was lost",
    ends(CODE, "Lost connection to the kernel gateway", "Lost connection to the remote runtime"),
)
broken(
    "a limit of a data provider",
    ends(("get_stock_data", "get_news"), "Too Many Requests. Rate limited. Try after a while."),
    *_NAMED,
)
broken(
    "a shard that does not answer",
    ends(SEARCH, "search_phase_execution_exception: all shards failed"),
    *_NAMED,
)
broken(
    "an index that is not loaded",
    ends(SEARCH, "Error: collection not loaded, index node {n} offline"),
    *_NAMED,
)
broken(
    "a key that was revoked",
    ends(("web_search",), "Search API error: 401 Unauthorized: invalid API key"),
    *_NAMED,
)
broken(
    "a retriever's stack in Go",
    ends(SEARCH, "dial tcp {h}:{p}: connect: connection refused"),
    *_NAMED,
)
broken(
    "a judge without capacity",
    notes("judge_raw", "503 The model is overloaded. Please try again later."),
)
broken(
    "a judge's half answer",
    notes("judge_parse.failure", "judge returned empty completion after 5 attempts"),
)
broken("a verifier that was killed", notes("verifier_status", "oom_killed", "crashed"))
broken(
    "a reward worker",
    notes("rewardWorker.exc", "multiprocessing.pool.MaybeEncodingError: Error sending result"),
)
broken("a lost replica", notes("rollout_exc", "RayServeException: replica {x} is no longer alive"))
broken(
    "a weight update",
    notes("failureReason", "weight sync of version {n} failed, generation discarded"),
)
broken("nothing, and nobody says why", nothing)
broken(
    "a stop by the cluster",
    finishes("node_failure", "spot_interruption", "system_error"),
    *_REASONED,
)
broken(
    "an engine in the place of a response",
    says(
        "[vLLM] EngineDeadError: engine core {n} is dead",
        "ERROR: engine loop has died, request {x} dropped",
    ),
)
broken("a page of a proxy", says("<html><body><h1>504 Gateway Time-out</h1>nginx</body></html>"))

honest(
    "calls that are no calls",
    notes("termination_reason", "invalid_tool_call_limit", "no_tool_call"),
)
honest(
    "a tool that needs a name", ends(SEARCH, '{"error": "tool_call requires a \'name\' argument"}')
)
honest("its crawler times out", ends(CODE, _OWN_REQUEST))
honest("its command is not there", ends(CODE, "bash: line {n}: {w}: command not found"))
honest(
    "its command takes too long",
    ends(CODE, "Command timed out after {s} seconds", "[The command was killed after {s} s]"),
)
honest("its tests do not run", ends(CODE, "E   ModuleNotFoundError: No module named '{w}'"))
honest(
    "its build runs out of space", ends(CODE, "make: *** [all] Error 2", "ld: final link failed")
)
honest("its port is in use", ends(CODE, "OSError: [Errno 98] Address already in use"))
honest(
    "its database is not there", ends(CODE, "psql: error: connection to server on socket failed")
)
honest(
    "a date that is wrong",
    ends(("find_events", "book_room"), "invalid date: month must be in 1..12"),
)
honest(
    "no seat",
    ends(("book_seat", "book_flight"), "Booking failed: no seats are available on flight {n}"),
)
honest(
    "a card that is declined",
    ends(("pay_order",), "Payment failed: card ending in {n} was declined"),
)
honest("a ticket that is closed", ends(("update_ticket",), "Cannot update: ticket {n} is closed"))
honest(
    "a search about Kubernetes",
    ends(SEARCH, "Doc 1: CrashLoopBackOff means that a container restarts."),
)
honest("an answer on exit codes", says("Exit code 137 is a SIGKILL, mostly for memory."))
honest("an answer on gateways", says("It is 504 Gateway Timeout, so answer C."))
honest("an answer in a block", says('```json\n{"status": "error", "code": 503}\n```'))
honest("an answer with an exception", says("raise ConnectionError('lost')", "TimeoutError"))
honest(
    "a judge on an engine",
    notes("judge_rationale", "The essay says that the engine died, which is wrong."),
)
honest(
    "a judge on a server",
    notes("verifier_note", "The student's server is unavailable on port {p}."),
)
honest("a check of a format", notes("reward_detail", {"format_error": True, "accuracy": 0.0}))
honest("a grade", notes("outcome", "lost", "draw", "failed"))
honest("a game that is lost", notes("game_state.result", "player died", "dead end"))
honest(
    "hints of a checker",
    notes("check_errors", ["step 2 does not follow", "sign error in line {n}"]),
)
honest("a count of errors", notes("num_errors", 3, 1))
