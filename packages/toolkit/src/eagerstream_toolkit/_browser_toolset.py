"""`BrowserToolset`: the definition of the `browser` toolset, and the dispatch of its calls to the user's functions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, Unpack

from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import RunningCall, Tool, ToolErrorCode, ToolOptions

from ._tool_options import with_definition

BrowserMember: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
"""The function of one tool of the toolset. It gets the input, and returns the result."""

BROWSER_MEMBERS: Final = (
    *("navigate", "list_tabs", "new_tab", "switch_tab", "close_tab", "read_page", "get_page_text", "read_console"),
    *("read_network", "find", "form_input", "file_upload", "scroll_to", "screenshot", "zoom", "left_click"),
    *("right_click", "middle_click", "double_click", "triple_click", "hover", "left_click_drag", "left_mouse_down"),
    *("left_mouse_up", "mouse_move", "scroll", "type", "key", "hold_key", "wait", "javascript_exec"),
)
"""The members of `browser_toolset_20260801`."""


class BrowserToolset(Tool):
    """The toolset `browser_toolset_20260801`, run by your own functions.

        BrowserToolset({"navigate": navigate, "screenshot": screenshot})

    It contains no browser. Each function gets its member's input as the model wrote it, unchecked. It may return
    anything that a tool may return. Images and `browser_state` blocks pass through unchanged. The calls of a turn run
    in order. After a call fails, the calls behind it do not run.

    Args:
        members: Async functions, by member. The model does not see members without a function.
        configs: Configuration by member, for example `{"navigate": {"defer_loading": True}}`.
        options: See `ToolOptions`. Of the options that belong in the definition, only `cache_control` is allowed.

    Raises:
        UsageError: A member is unknown, `configs` enables a member without a function, a function is not async, or an
            option is wrong.
    """

    def __init__(
        self,
        members: Mapping[str, BrowserMember],
        *,
        configs: Mapping[str, Mapping[str, bool]] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        if unknown := sorted({*members, *(configs or ())} - set(BROWSER_MEMBERS)):
            raise UsageError(f"the browser toolset has no {', '.join(unknown)}")
        if plain := sorted(name for name, function in members.items() if not inspect.iscoroutinefunction(function)):
            raise UsageError(f"members of the browser toolset must be async functions: {', '.join(plain)}")
        if missing := sorted(
            name for name, config in (configs or {}).items() if config.get("enabled") and name not in members
        ):
            raise UsageError(f"the browser toolset has no function for {', '.join(missing)}, which configs enable")
        # Configure every member explicitly: the API disables a few by default.
        merged = {name: {"enabled": name in members, **(configs or {}).get(name, {})} for name in BROWSER_MEMBERS}
        self._members = {name: function for name, function in members.items() if merged[name]["enabled"] is True}
        definition = {"type": "browser_toolset_20260801", "configs": merged}
        super().__init__(self._call, **with_definition(definition, options, takes=("cache_control",)))

    async def _call(self, input: dict[str, Any], call: RunningCall) -> Any:
        function = self._members.get(call.name)
        if function is None:
            raise ToolError(f"Error: {call.name[:60]!r} is not available here.", code=ToolErrorCode.NOT_FOUND)
        return await function(input)
