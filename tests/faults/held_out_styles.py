"""Styles for which no pattern was changed: they were written last, and measured once."""

from functools import partial

from faults import styles
from faults.styles import CODE, SEARCH, both, ends, notes, nothing, says

broken, honest = (partial(add, written="held out") for add in (styles.broken, styles.honest))
_NAMED = ("native", "tokens", "verifiers")

broken(
    "a browser that is not installed",
    notes("env.error", "Executable doesn't exist at /ms-playwright/chromium-{n}/chrome"),
)
broken(
    "a lease that ran out", notes("sandbox_note", "lease {x} expired while the command was running")
)
broken("a volume that is not mounted", ends(CODE, "Workspace volume {x} is not mounted"))
broken(
    "a server of tools that restarts",
    ends(("calendar_list", "mail_send"), "tool backend restarted during the call"),
    *_NAMED,
)
broken(
    "a page of search that is blocked",
    ends(
        SEARCH,
        "<html><head><title>429 Too Many Requests</title></head><body>slow down</body></html>",
    ),
    *_NAMED,
)
broken(
    "an embedding service",
    ends(SEARCH, "embedding service error: CUDA error: device-side assert triggered"),
    *_NAMED,
)
broken(
    "a judge over its rate",
    notes("rm_response", "RateLimitError: tokens per minute reached, retry in {s} s"),
)
broken(
    "a judge that is loading",
    notes("verifierLog", "Model is currently loading, estimated time {s}.0"),
)
broken(
    "a pool of judges",
    notes(
        "scoring.exception",
        "concurrent.futures.process.BrokenProcessPool: a process in the pool was terminated",
    ),
)
broken("a rank that hangs", notes("rollout_failure", "NCCL timeout on rank {n}, work aborted"))
broken("a cache that is full", notes("sampler_error", "Out of KV blocks, request {x} evicted"))
broken("a request that was dropped", both(nothing, notes("drop_reason", "queue full")))
broken("a machine that rebooted", notes("fault", "host {h} rebooted unexpectedly"))
broken(
    "an adapter that is not loaded",
    says(
        "Error code: 404 - {'object': 'error', 'message': 'The LoRA adapter step_{n} is not loaded'}"
    ),
)
broken(
    "a socket that is closed",
    notes(
        "harness.traceback",
        "websockets.exceptions.ConnectionClosedError: no close frame received or sent",
    ),
)

honest("a guess", says("Maybe {n}?", "I think it is {w}."))
honest(
    "an unfinished proof",
    says("Assume n is even. Then the claim fails for n = {n}, a contradiction?"),
)
honest("its own retry loop", ends(CODE, "giving up after 3 retries: HTTP 503 from localhost:{p}"))
honest("its regular expression", ends(CODE, "re.error: unterminated character set at position {n}"))
honest(
    "its test server",
    ends(CODE, "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='localhost', port={p})"),
)
honest(
    "a wrong file",
    ends(
        ("view_file", "edit_file"), "Error: {w}.py: no such file", "no match for old_str in {w}.py"
    ),
)
honest("a wrong day", ends(("get_weather",), "No forecast for day {n}"))
honest("a coupon", ends(("apply_coupon",), "Coupon {w}{n} has expired"))
honest("a stock", ends(("place_order",), "Item {n} is unavailable in this size"))
honest("a room", ends(("reserve_room",), "Room {n} is unavailable on that date"))
honest(
    "a comment of a grader", notes("grader_comment", "Loses two points: the network is not drawn.")
)
honest("a checklist", notes("verification_report", {"units": False, "sign": True}))
honest("a type of mistake", notes("error_type", "calculation", "misread the question"))
honest("a tag of a mistake", notes("failure_mode", "wrong sign", "arithmetic slip"))
honest("a reason of a reward", notes("reward_reason", "length penalty, answer missing"))
