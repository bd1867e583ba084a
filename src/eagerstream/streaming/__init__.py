"""One response: read its bytes, feed the wire core, and hand out its events."""

from __future__ import annotations

from ._event_buffer import BufferMode
from ._event_feed import EventFeed
from ._exchange import StreamEvent
from ._faults import InputError
from ._growing_input import GrowingInput, TextPlace
from ._marks import Arrival, BlockMarks, Clock, FinishedField, ReplyMarks
from ._message_stream import DefinedTool, MessageStream, stream
from ._observers import FeedEnd, Observer, OnFeed, RequestObserver, on_every_feed, on_feed
from ._options import FeedOptions, InputOptions, OutputOptions, RequestParameters, SourceOptions, StreamOptions
from ._output import GrowingOutput, OutputDelta, OutputReader
from ._output_format import OutputFormat, OutputMode
from ._source import events
from ._typed_partial import Partial, TypedPartial, adapter_of

__all__ = [
    "Arrival",
    "BlockMarks",
    "BufferMode",
    "Clock",
    "DefinedTool",
    "EventFeed",
    "FeedEnd",
    "FeedOptions",
    "FinishedField",
    "GrowingInput",
    "GrowingOutput",
    "InputError",
    "InputOptions",
    "MessageStream",
    "Observer",
    "OnFeed",
    "OutputDelta",
    "OutputFormat",
    "OutputMode",
    "OutputOptions",
    "OutputReader",
    "Partial",
    "ReplyMarks",
    "RequestObserver",
    "RequestParameters",
    "SourceOptions",
    "StreamEvent",
    "StreamOptions",
    "TextPlace",
    "TypedPartial",
    "adapter_of",
    "events",
    "on_every_feed",
    "on_feed",
    "stream",
]
