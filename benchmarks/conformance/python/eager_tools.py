"""eager-tools-core: `SealDetector`, which says when a call may start. The adapter reads the wire format for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from eager_tools import SealDetector

from eagerstream_wire import SSEDecoder


def inputs(chunks: Sequence[bytes]) -> dict[str, Any]:
    decoder, detector = SSEDecoder(), SealDetector()
    events = [event for found in [*map(decoder.feed, chunks), decoder.close()] for event in found]
    sealed = [_observed(detector, json.loads(event.data)) for event in events]
    starts = [seal.tool_call.tool_call_id for seal in sealed if seal is not None and seal.parse_error is None]
    return {"starts": sorted(starts)}


def _observed(detector: SealDetector, event: dict[str, Any]) -> Any:
    index = event.get("index")
    match event:
        case {"type": "content_block_start", "content_block": {"type": "tool_use", "id": call_id, "name": name}}:
            return detector.observe(tool_call_id=call_id, index=index, name=name, args_delta="")
        case {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": partial}}:
            return detector.observe(tool_call_id=None, index=index, name=None, args_delta=partial)
        case {"type": "message_stop"}:
            return detector.finalize()
        case _:
            return None
