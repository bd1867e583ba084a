"""ACP, the Agent Client Protocol: a run in an editor such as Zed. Serving needs the extra `acp`.

`serve_acp` is an agent that an editor starts. `ACPEncoder` alone turns records into session updates, without the extra.

====================  ==============================================================================================
in the run            in ACP
====================  ==============================================================================================
text, thinking        `agent_message_chunk`, `agent_thought_chunk`
an input              `tool_call`, then `tool_call_update` with a growing `rawInput`; `locations` and the title have
                      finished fields only; a diff when the input is valid
a call                the status: `pending` until it runs, `in_progress`, `completed` or `failed`
`approve=`            `session/request_permission`
the status            the stop reason: `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`
====================  ==============================================================================================

Integers that a double would round are marked in `rawInput`, see `record_schema`.
"""

from ._agent import ACPPrompt, Start
from ._encoder import ACPEncoder
from ._stdio import serve_acp
from ._tools import ACPTool, ToolKind, ToolOf, Update

__all__ = ["ACPEncoder", "ACPPrompt", "ACPTool", "Start", "ToolKind", "ToolOf", "Update", "serve_acp"]
