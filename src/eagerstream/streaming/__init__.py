"""One response: read its bytes, feed the wire core, and hand out its events."""

from __future__ import annotations

from ._event_buffer import BufferMode
from ._event_feed import EventFeed
from ._exchange import StreamEvent
from ._marks import Arrival, BlockMarks, ReplyMarks
from ._message_stream import MessageStream, stream
from ._observers import FeedEnd, Observer, RequestObserver, on_every_feed, on_feed
from ._options import FeedOptions, InputOptions, OutputOptions, RequestParameters, SourceOptions, StreamOptions
from ._output import GrowingOutput, OutputDelta
from ._output_format import OutputMode
from ._source import events
from ._typed_message import typed_message
from ._types import RequestMessage

__all__ = [
    "Arrival",
    "BlockMarks",
    "BufferMode",
    "EventFeed",
    "FeedEnd",
    "FeedOptions",
    "GrowingOutput",
    "InputOptions",
    "MessageStream",
    "Observer",
    "OutputDelta",
    "OutputMode",
    "OutputOptions",
    "ReplyMarks",
    "RequestMessage",
    "RequestObserver",
    "RequestParameters",
    "SourceOptions",
    "StreamEvent",
    "StreamOptions",
    "events",
    "on_every_feed",
    "on_feed",
    "stream",
    "typed_message",
]
