"""A response of the Messages API, converted to chunks of a chat completion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from eagerstream_wire import WireEvent

_CREATED: Final = 1_760_000_000  # constant: the same response gives the same bytes
_FINISH_REASONS: Final = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
_DONE: Final = b"data: [DONE]\n\n"


class ChatRenderer:
    """Converts one response, event by event, to OpenAI's form.

    Args:
        wants_usage: The request asks for the usage, in a last chunk without choices.
    """

    fingerprint: ClassVar[str] = "fp_simulated"

    def __init__(self, *, wants_usage: bool) -> None:
        self._wants_usage = wants_usage
        self._id = "chatcmpl-simulated"
        self._model = "simulated"
        self._usage: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}  # by block index
        self._count = 0

    def render(self, event: WireEvent) -> bytes:
        """Return the bytes to send for a wire event; often none."""
        match event:
            case {"type": "message_stop"}:
                usage = {**self.chunk({}), "choices": [], "usage": _usage(self._usage)}
                return (encode_chunk(usage) if self._wants_usage else b"") + _DONE
            case {"type": "error", "error": dict(error)}:
                return b"data: " + encode_error(error) + b"\n\n"
            case _:
                return b"".join(map(encode_chunk, self._chunks(event)))

    def chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        """Return a chunk with one choice."""
        choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish_reason}
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": _CREATED,
            "model": self._model,
            "system_fingerprint": self.fingerprint,
            "choices": [choice],
        }
        return {**chunk, "usage": None} if self._wants_usage else chunk

    def _chunks(self, event: WireEvent) -> Iterator[dict[str, Any]]:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._begin(message)
                yield self.chunk({"role": "assistant", "content": ""})
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                if block.get("type") == "tool_use":
                    yield from self._begin_call(index, block)
                elif isinstance(block.get("text"), str) and block["text"]:
                    yield self.chunk({"content": block["text"]})
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                yield from self._delta(index, delta)
            case {"type": "content_block_stop", "index": int(index)} if index in self._calls:
                yield from self._end_call(self._calls.pop(index))
            case {"type": "message_delta", "delta": dict(delta)}:
                self._usage.update(event.get("usage") or {})
                if delta.get("stop_reason") is not None:
                    yield from self._end(_FINISH_REASONS.get(delta["stop_reason"], "stop"))
            case _:
                pass  # pings, and events that this protocol does not have

    def _begin(self, message: Mapping[str, Any]) -> None:
        """Take the id, the model and the usage of a message that starts."""
        self._id = f"chatcmpl-{str(message.get('id')).removeprefix('msg_')}"
        self._model = str(message.get("model"))
        self._usage = dict(message.get("usage") or {})
        self._calls.clear()
        self._count = 0

    def _begin_call(self, index: int, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        function = {"name": block.get("name"), "arguments": ""}
        call = {"index": self._count, "id": block.get("id"), "type": "function", "function": function}
        self._calls[index] = call
        self._count += 1
        yield from self._announce(call)
        if block.get("input"):
            yield from self._arguments(call, json.dumps(block["input"]))

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                yield self.chunk({"content": text})
            case {"type": "input_json_delta", "partial_json": str(fragment)} if fragment and index in self._calls:
                yield from self._arguments(self._calls[index], fragment)
            case _:
                pass

    # --- differences between servers ---

    def _announce(self, call: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield self.chunk({"tool_calls": [call]})

    def _arguments(self, call: dict[str, Any], fragment: str) -> Iterator[dict[str, Any]]:
        yield self.chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": fragment}}]})

    def _end_call(self, _call: dict[str, Any]) -> Iterator[dict[str, Any]]:
        return iter(())

    def _end(self, finish_reason: str) -> Iterator[dict[str, Any]]:
        yield self.chunk({}, finish_reason)


class VLLMRenderer(ChatRenderer):
    """Converts as vLLM does: holds the newest arguments back, and repeats the id and name of the call with the last."""

    fingerprint = "fp_vllm"

    def __init__(self, *, wants_usage: bool) -> None:
        super().__init__(wants_usage=wants_usage)
        self._held: tuple[dict[str, Any], str] | None = None

    def _chunks(self, event: WireEvent) -> Iterator[dict[str, Any]]:
        if event.get("type") in ("message_start", "content_block_start"):
            yield from self._release()
        yield from super()._chunks(event)

    def _arguments(self, call: dict[str, Any], fragment: str) -> Iterator[dict[str, Any]]:
        yield from self._release()
        self._held = (call, fragment)

    def _release(self) -> Iterator[dict[str, Any]]:
        if self._held is not None:
            yield from super()._arguments(*self._held)
            self._held = None

    def _end(self, finish_reason: str) -> Iterator[dict[str, Any]]:
        if self._held is None:
            yield from super()._end(finish_reason)
            return
        (call, fragment), self._held = self._held, None
        function = {"name": call["function"]["name"], "arguments": fragment}
        yield self.chunk({"tool_calls": [{**call, "function": function}]}, finish_reason)


class OllamaRenderer(ChatRenderer):
    """Converts as Ollama does: a call is sent when it is complete."""

    fingerprint = "fp_ollama"

    def _announce(self, call: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        del call
        return iter(())

    def _arguments(self, call: dict[str, Any], fragment: str) -> Iterator[dict[str, Any]]:
        call.setdefault("written", []).append(fragment)
        return iter(())

    def _end_call(self, call: dict[str, Any]) -> Iterator[dict[str, Any]]:
        arguments = "".join(call.pop("written", ["{}"]))
        if _is_object(arguments):
            function = {"name": call["function"]["name"], "arguments": arguments}
            yield self.chunk(
                {"role": "assistant", "content": "", "tool_calls": [{**call, "index": 0, "function": function}]}
            )
        else:
            yield self.chunk({"role": "assistant", "content": arguments})


def encode_chunk(chunk: Mapping[str, Any]) -> bytes:
    """Return a chunk as a server-sent event."""
    return b"data: " + _dump(chunk) + b"\n\n"


def encode_error(error: Mapping[str, Any]) -> bytes:
    """Return an error of the Messages API in OpenAI's form."""
    return _dump({"error": {"message": error.get("message"), "type": error.get("type"), "param": None, "code": None}})


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    sent, written = int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0)
    return {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
