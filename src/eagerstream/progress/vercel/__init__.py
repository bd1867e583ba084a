"""Vercel UI message streams: runs behind `useChat`, and whatever else reads `x-vercel-ai-ui-message-stream: v1`.

`vercel_app` is the endpoint that the `ai` package's `DefaultChatTransport` (and assistant-ui on top of it) talks to.
Its parts can be used alone: `UIMessageEncoder` makes the chunks, `to_messages` turns UI messages into those of the API.

What the protocol has no form for comes as data parts; a page may leave them alone, but for the first:

====================  ==============================================================================================
`data-restarted`      the turn begins anew: what is between the `step-start` before it and here is void, and not to be
                      shown; transient where nothing is left to be void (nothing had come, or `sdk=7` took it back)
`data-approval`       `{"approvalId", "toolCallId", "state", "reason"}`: a call waits for a person, or was decided on
`data-tool-progress`  transient: `{"toolCallId", "progress"}` of a tool whose input is still being written
`data-interrupted`    `{"turn", "error"}`: the reply broke off, and the run goes on with what was whole of it
`data-block`          a content block without a form, as the API has it
`data-event`          transient: an event of the API that nobody here knows
====================  ==============================================================================================

Numbers are JavaScript's there: integers beyond 2 ** 53 lose their last digits on the page, and in what it sends back.
"""

from ._app import ChatRequest, Start, vercel_app
from ._encoder import Chunk, SDKVersion, UIMessageEncoder, describe_error
from ._messages import UIMessageError, to_messages

__all__ = [
    "ChatRequest",
    "Chunk",
    "SDKVersion",
    "Start",
    "UIMessageEncoder",
    "UIMessageError",
    "describe_error",
    "to_messages",
    "vercel_app",
]
