"""Vercel UI message streams: runs for `useChat` and other readers of `x-vercel-ai-ui-message-stream: v1`.

`vercel_app` is the endpoint for `DefaultChatTransport` of the `ai` package (and for assistant-ui on top of it).
Its parts can be used alone: `UIMessageEncoder` makes the chunks, `to_messages` turns UI messages into those of the API.

Content without a form in the protocol comes as data parts. A page may ignore all of them except the first:

====================  ==============================================================================================
`data-restarted`      the turn restarts: the parts between the last `step-start` and this are void: do not show them;
                      transient if nothing is left to be void (nothing had come, or `sdk=7` took it back)
`data-approval`       `{"approvalId", "toolCallId", "state", "reason"}`: a call waits for a person, or was decided
`data-tool-progress`  transient: `{"toolCallId", "progress"}` of a tool whose input is still being written
`data-interrupted`    `{"turn", "error"}`: the response was interrupted, and the run continues with its complete parts
`data-block`          a content block without a form, as the API has it
`data-event`          transient: an unknown event of the API
====================  ==============================================================================================

Numbers are JavaScript's. Integers beyond 2 ** 53 lose their last digits on the page, and in the messages that it sends.
Only the inputs of calls are exact: there such integers are marked, see `record_schema`.
"""

from .._held import Approval
from ._app import ChatRequest, Start, vercel_app
from ._encoder import UIMessageEncoder
from ._messages import UIMessageError, to_messages

__all__ = [
    "Approval",
    "ChatRequest",
    "Start",
    "UIMessageEncoder",
    "UIMessageError",
    "to_messages",
    "vercel_app",
]
