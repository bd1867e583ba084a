"""The options of a run: each has its type, its meaning, its default and its check here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, TypedDict, get_args

from eagerstream_wire._checks import check_choice, check_count, check_positive, check_seconds

from ..calls._policy import OnInterrupt, OnTruncated
from ..errors import UsageError
from ..limits import Limits
from ..streaming._options import FeedOptions, InputOptions, OutputOptions, RequestParameters
from ..tools._breaker import CircuitBreaker
from ..tools._executor import Executor
from ..tools._options import OnInvalid
from ._budget import Price
from ._journal import RunJournal

BetaUse: TypeAlias = Literal["auto", "always"] | None
"""The use of a beta: at the API's own address only (`"auto"`), at any address (`"always"`), or nowhere (None)."""


class NextRequest(Protocol):
    """Changes a request of a run before it is sent."""

    def __call__(self, request: Mapping[str, Any], turn: int) -> Mapping[str, Any] | None:
        """Return the parameters to change for this request, `{"tool_choice": {"type": "any"}}` for example, or None.

        Each request starts from the parameters of the run. `tools` may contain tools, or definitions from `request`,
        and replaces all tools of that request. If a definition has the name of a tool of the run, that tool runs its
        calls. `messages` replaces the history of the run, from this request on: a shorter one, for example. `stream`
        cannot be changed. An exception ends the run with that exception. It is not called for a summary
        (`Run.compact`).

        Args:
            request: The body that would be sent, `messages` included. Do not change it.
            turn: The number of the turn, from 1.
        """
        ...


class LoopOptions(TypedDict, total=False):
    """The options that decide if and how a run continues.

    Attributes:
        next_request: Called before each request, see `NextRequest`. It may change the model, the tools,
            `max_tokens`, `system`, `tool_choice` and other parameters of that request. A request that is sent again
            because the response broke off keeps the changes.
        max_turns: Responses at most. The calls of the last turn still run and are answered in the history; status
            `LIMIT`. 50 by default. None for no bound: a model that never stops calling tools is then paid for without
            end.
        max_continuations: How often in a row the run continues after a response that was paused (status `PAUSED` beyond
            it), or cut and reported (`TRUNCATED`), and how often it asks for the rest of one input; 5 by default.
        max_consecutive_tool_errors: Turns in a row in which every call failed, at most; status `LIMIT`. The model
            usually corrects a call in two or three tries. None (default) for no bound.
        max_total_tokens: Tokens of all responses at most, those of runs that tools start among them: input, from and
            for the cache, output. It is checked before each request; then the run ends with status `LIMIT`, and
            `result.limit` names the bound. The last response may exceed it, see `on_budget`. None (default): no bound.
        max_cost: Cost of all responses at most, as `price` counts it. Checked as `max_total_tokens`.
        price: A function of the usage of a response and of its model, which returns its cost in any currency. It fills
            `result.cost`. If a response was cut, its `output_tokens` are estimated. Token prices differ by model and
            change, so none are built in. An exception of it ends the run. The runs that tools start count with it
            towards the bounds of this run.
        on_budget: The reaction if the estimate of a response passes a bound while it is written. `"finish"` (default):
            none. `"cut"`: it ends there, to save its tokens. Its complete calls still run, and the run ends. The
            estimate has four characters for a token.
        on_invalid: The reaction to an input that is not JSON. The option of its tool takes precedence. `"report"`
            (default): the result tells the model, which usually corrects it. `"buffer_next"`: the next request also
            switches eager inputs off for that tool. The API checks the input, and sends it when it is complete. The
            request after it is eager again. `tools` changes twice, and the API may lose its prompt cache for that. A
            tool that came by a block of the history (`inline_tools`) stays eager.
        on_truncated: The reaction to a response cut by `max_tokens`. `"stop"` (default): the run ends. `"retry"`: if
            nothing of it has started to run, it is requested once more with twice the tokens; else as `"report"`.
            `"report"`: the model is told which call was cut, gets the results of the others, and continues; without a
            call the run ends. `"raise"`: the run ends with a `LimitError`. `"continue_input"`: if the cut is inside the
            input of a call, the model is asked for the rest of that input, as often as `max_continuations` allows, and
            the call goes on with it. With `on_interrupt="resume"`, so it is after a lost connection or silence. Each
            request with tools has one more, `continue_input`. If the model does not continue at the seam, or nothing
            can prove that it does: as `"report"`. For a `Conversation`, which sends nothing itself: as `"report"`.
        max_tokens_cap: The most tokens that a retry asks for; None (default) for twice `max_tokens`. Each request for
            the rest of an input asks for twice the tokens of the one before, up to this; with None, for `max_tokens`.
        on_interrupt: The reaction to a response that breaks off: a lost connection, silence, an `error` event,
            nonsense, no end; and to a request refused for the time being (429, 529, ...), unless the client retries
            these itself. `"resume"` (default): if nothing of it has started to run, the same request is sent again
            (`Restarted`). Otherwise running tools finish, the complete calls become the turn, and the run continues
            with their results (`TurnStop` with the `error`). No call runs twice. `"raise"`: the run ends with the
            error.
        max_restarts: How often in a row the run may be interrupted; then the error is raised. 2 by default.
        restart_delay_s: The pause before the first restart, in seconds, 0.5 by default. It is doubled each time up to
            30 s, less up to half of it by chance, and added to the time that the peer asks for (`retry-after`, up to
            `Limits.max_retry_after_s`).
        cache: `"auto"` places cache breakpoints that move along with the history, within the API's limit of four. None
            (default): the cache breakpoints are yours.
        threads: `"auto"` (default of `run`) lets the API keep the conversation (message threads, a beta), so that each
            request carries only what is new in it. It is used with the API's own address only: a gateway may ignore the
            field, and would answer a request without its conversation. `"always"` uses it at any address. None (default
            of `Conversation`) sends the complete conversation each time. If the API refuses threads, or has lost one,
            the complete conversation is sent, and nothing is lost.
        inline_tools: How `add_tools` and `remove_tools` reach the model. `"auto"` (default of `run`): at the API's own
            address by blocks of the history (a beta), which keeps the prompt cache; elsewhere by `tools` of the next
            request. `"always"`: by blocks at any address. None (default of `Conversation`): by `tools`. If the API
            refuses the blocks, `tools` is changed, and the blocks are removed from the history.
        repair: Repair the messages at the start, as `repair_history` does; `result.repairs` has the changes. With False
            (default), messages that the API would refuse are a `HistoryError`.
    """

    next_request: NextRequest | None
    max_turns: int | None
    max_continuations: int
    max_consecutive_tool_errors: int | None
    max_total_tokens: int | None
    max_cost: float | None
    price: Price | None
    on_budget: Literal["finish", "cut"]
    on_invalid: OnInvalid
    on_truncated: OnTruncated
    max_tokens_cap: int | None
    on_interrupt: OnInterrupt
    max_restarts: int
    restart_delay_s: float
    cache: Literal["auto"] | None
    inline_tools: BetaUse
    repair: bool
    threads: BetaUse


class CallOptions(TypedDict, total=False):
    """The options for running calls.

    Attributes:
        executor: Runs the calls. None (default): the tools run in this process. With an executor of your own, tools
            whose schema the API brings (`bash_20250124`) may be bare definitions, which the executor must recognize.
        max_concurrency: Tools that run at once; 16 by default.
        circuit_breaker: Stops calling a tool for a while if it fails again and again, and reports the state of each
            tool. A call of such a tool is answered with an error at once. None (default) for none.
    """

    executor: Executor | None
    max_concurrency: int
    circuit_breaker: CircuitBreaker | None


class ConversationOptions(RequestParameters, OutputOptions, LoopOptions, CallOptions, total=False):
    """The options of `Conversation`.

    Attributes:
        eager: As for `stream`.
        limits: Bounds on responses, inputs and results.
    """

    eager: bool
    limits: Limits


class RunOptions(ConversationOptions, InputOptions, FeedOptions, total=False):
    """The options of `run`.

    Attributes:
        journal: Keeps the run, as `eagerstream_durable.journal.Journal` does: each step is written before it matters,
            so that the run can continue after a crash. None (default): nothing is kept.
        run_id: The id of the run (`Run.id`). If the journal has a run with it, that run continues, and `messages` is
            ignored. None (default): a new id.
    """

    journal: RunJournal | None
    run_id: str | None


LOOP_DEFAULTS: Final[LoopOptions] = {
    "next_request": None,
    # Each turn is paid for, and some models never stop calling: to go on without end is a choice. There is no bound on
    # failed turns: the API's guide lets a model try two or three times before it gives up by itself. Continuations have
    # one, as nothing else ends them: the guide's is 5, too.
    "max_turns": 50,
    "max_continuations": 5,
    "max_consecutive_tool_errors": None,
    "max_total_tokens": None,
    "max_cost": None,
    "price": None,
    # A response that is cut has been paid for, and nobody gets its end.
    "on_budget": "finish",
    # A model usually corrects itself, and to change the tools costs their cache.
    "on_invalid": "report",
    # A retry costs tokens and a report another turn, so both are for the user to choose. A lost connection is nobody's
    # choice, and nothing runs twice if the run resumes: hence the other default.
    "on_truncated": "stop",
    "max_tokens_cap": None,
    "on_interrupt": "resume",
    "max_restarts": 2,
    "restart_delay_s": 0.5,
    # Marks change what is billed, and the user may have his own.
    "cache": None,
    # A history that has to be repaired has lost something, and its owner should know.
    "repair": False,
    # By hand, the request is the user's, and a part of it only if that was asked for.
    "inline_tools": None,
    "threads": None,
}
CALL_DEFAULTS: Final[CallOptions] = {"executor": None, "max_concurrency": 16, "circuit_breaker": None}


def check_beta_use(name: str, value: object) -> None:
    """Raise an error if an option is no `BetaUse`.

    Raises:
        UsageError: It names the values.
    """
    if value not in (None, "auto", "always"):
        raise UsageError(f'{name} must be "auto", "always" or None, not {value!r}')


def check_loop_options(options: LoopOptions) -> None:
    """Raise an error if a setting is out of range.

    Raises:
        UsageError: It names the setting.
    """
    # At the call of `run`, not when an option is first used: that may be hours later, in the middle of a run
    # (test_no_bound_on_continuations).
    values: Mapping[str, Any] = options
    for name in ("max_turns", "max_consecutive_tool_errors", "max_tokens_cap"):
        if values[name] is not None:
            check_count(name, values[name])
    for name in ("max_continuations", "max_restarts"):
        check_count(name, values[name], least=0)
    if values["max_total_tokens"] is not None:
        check_count("max_total_tokens", values["max_total_tokens"])
    if values["max_cost"] is not None:
        check_positive("max_cost", values["max_cost"])
    if values["price"] is not None and not callable(values["price"]):
        raise UsageError(f"price must be a function of usage and model, not {values['price']!r:.80}")
    check_choice("on_budget", options["on_budget"], ("finish", "cut"))
    check_choice("on_invalid", options["on_invalid"], get_args(OnInvalid))
    check_choice("on_truncated", options["on_truncated"], get_args(OnTruncated))
    check_choice("on_interrupt", options["on_interrupt"], get_args(OnInterrupt))
    check_seconds("restart_delay_s", options["restart_delay_s"])
    if not isinstance(options["repair"], bool):
        raise UsageError(f"repair must be True or False, not {options['repair']!r}")
    check_beta_use("inline_tools", options["inline_tools"])
    check_beta_use("threads", options["threads"])
    if options["cache"] not in (None, "auto"):
        raise UsageError(f'cache must be "auto" or None, not {options["cache"]!r}')
