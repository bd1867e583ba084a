"""Stop reasons: their proof of how a response ended, and the words of other APIs that gateways pass on."""

from __future__ import annotations

from typing import Final

ENDED_BY_THE_MODEL: Final = ("tool_use", "end_turn", "pause_turn")
"""Stop reasons that prove that the response was not cut: an empty input before one of them is really empty.

20 of 276 recorded inputs are empty: tools without arguments get no fragment except `""`. The list contains the reasons
that prove it, not those that disprove it (`max_tokens`, `refusal`, ...), because a future reason proves nothing.
"""

CUTS: Final = ("max_tokens", "model_context_window_exceeded", "refusal", "stop_sequence")
"""Stop reasons that prove that the response may have come to a stop anywhere."""

PAUSES: Final = ("pause_turn", "compaction")
"""Stop reasons of a response that the API continues as it is."""

_OF_OTHER_APIS: Final = {
    # Chat Completions of OpenAI, and servers like it.
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "stop": "end_turn",
    "eos": "end_turn",
    "eos_token": "end_turn",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
    # Gemini.
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "SAFETY": "refusal",
}


def standard_stop_reason(reason: str) -> str:
    """Return the Messages API's word for a stop reason of another API: `"tool_use"` for `"tool_calls"`.

    Gateways to other models pass such words on. Any other reason is returned as it is.
    """
    return _OF_OTHER_APIS.get(reason, reason)
