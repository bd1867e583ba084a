"""The reader of UI message streams, once more in Python: it refuses what the strictest of the real ones would refuse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

_PART: Final = {"id", "providerMetadata"}
_CALL: Final = {"toolCallId", "toolName", "providerExecuted", "dynamic", "input", "providerMetadata"}
_RESULT: Final = {"toolCallId", "providerExecuted", "dynamic"}
FIELDS: Final[dict[str, set[str]]] = {
    "start": {"messageId", "messageMetadata"},
    "start-step": set(),
    "finish-step": set(),
    "finish": {"finishReason", "messageMetadata"},
    "abort": set(),
    "message-metadata": {"messageMetadata"},
    "error": {"errorText"},
    "text-start": _PART,
    "text-delta": _PART | {"delta"},
    "text-end": _PART,
    "reasoning-start": _PART,
    "reasoning-delta": _PART | {"delta"},
    "reasoning-end": _PART,
    "source-url": {"sourceId", "url", "title", "providerMetadata"},
    "tool-input-start": {"toolCallId", "toolName", "providerExecuted", "dynamic"},
    "tool-input-delta": {"toolCallId", "inputTextDelta"},
    "tool-input-available": _CALL,
    "tool-input-error": _CALL | {"errorText"},
    "tool-output-available": _RESULT | {"output", "preliminary"},
    "tool-output-error": _RESULT | {"errorText"},
}
"""What the first, strict schema of version 5 knows of each chunk."""
SINCE: Final[dict[str, tuple[int, set[str]]]] = {
    "tool-approval-request": (6, {"approvalId", "toolCallId"}),
    "tool-output-denied": (6, {"toolCallId"}),
    "tool-approval-response": (7, {"approvalId", "approved", "reason"}),
    "reset-step": (7, set()),
}
REASONS: Final = {"stop", "length", "content-filter", "tool-calls", "error", "other", None}


class Reader:
    """Rebuilds the message from its chunks; asserts what the protocol wants."""

    def __init__(self, sdk: int = 6) -> None:
        self.sdk = sdk
        self.message: dict[str, Any] = {"parts": [], "metadata": {}}
        self.types: list[str] = []
        self.data: list[Mapping[str, Any]] = []
        self.errors: list[str] = []
        self._texts: dict[str, Any] = {}
        self._calls: dict[str, Any] = {}
        self._raw: dict[str, str] = {}
        self._in_step = False

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts of the message."""
        parts: list[dict[str, Any]] = self.message["parts"]
        return parts

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The parts of calls."""
        return [part for part in self.parts if "toolCallId" in part]

    @property
    def text(self) -> str:
        """All text."""
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    def read(self, chunks: Iterable[Mapping[str, Any]]) -> Reader:
        """Take in the next chunks."""
        for chunk in chunks:
            self._check(chunk)
            self._take(json.loads(json.dumps(chunk)))
            self.types.append(chunk["type"])
        return self

    def ended(self) -> Reader:
        """The stream is over: nothing may be open."""
        assert self.types[0] == "start"
        ends = self.types.count("finish") + self.types.count("abort")
        assert self.types.count("start") == ends, "each stream of the message has a start and an end"
        assert self.types[-1] in ("finish", "abort")
        assert not self._in_step
        assert not self._texts, "a text was not ended"
        for part in self.calls:
            assert part["state"].startswith("output-"), part
            assert part["state"] == "output-denied" or not part.get("preliminary"), "a call without its result"
        return self

    def _check(self, chunk: Mapping[str, Any]) -> None:
        kind = chunk["type"]
        # A stream that waits for a person ends, and the next one continues its message.
        is_between = not self.types or self.types[-1] in ("finish", "abort")
        assert (kind == "start") is is_between, kind
        fields = set(chunk) - {"type"}
        if kind.startswith("data-"):
            assert fields <= {"id", "data", "transient"}
        elif kind in SINCE:
            assert SINCE[kind][0] <= self.sdk
            assert fields <= SINCE[kind][1]
        else:
            assert fields <= FIELDS[kind], chunk
        for metadata in [chunk["providerMetadata"]] if "providerMetadata" in chunk else []:
            assert all(isinstance(value, dict) for value in metadata.values())
        # What the reader refuses wherever it stands.
        _check_keys(chunk)

    def _take(self, chunk: dict[str, Any]) -> None:
        kind = chunk.pop("type")
        match kind:
            case "start" | "message-metadata" | "finish":
                self.message["id"] = chunk.get("messageId", self.message.get("id"))
                self.message["metadata"] |= chunk.get("messageMetadata", {})
                assert chunk.get("finishReason") in REASONS
            case "start-step":
                assert not self._in_step
                self._in_step = True
                self.parts.append({"type": "step-start"})
            case "finish-step":
                assert self._in_step
                assert not self._texts
                self._in_step = False
            case "reset-step":
                while self.parts[-1]["type"] != "step-start":
                    self.parts.pop()
                self._texts.clear()
                self._raw.clear()
            case "text-start" | "reasoning-start":
                assert self._in_step and chunk["id"] not in self._texts
                self._texts[chunk["id"]] = {"type": kind.removesuffix("-start"), "text": "", **_metadata(chunk)}
                self.parts.append(self._texts[chunk["id"]])
            case "text-delta" | "reasoning-delta":
                self._texts[chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                self._texts.pop(chunk["id"]).update(_metadata(chunk))
            case "source-url":
                self.parts.append({"type": kind, **chunk})
            case "error":
                self.errors.append(chunk["errorText"])
            case "abort":
                pass
            case _ if kind.startswith("data-"):
                self.data.append({"type": kind, **chunk})
                self._data({"type": kind, **chunk})
            case "tool-input-start":
                id = chunk["toolCallId"]
                assert self._in_step and id not in self._calls
                name = chunk.pop("toolName")
                typed = (
                    {"type": "dynamic-tool", "toolName": name} if chunk.pop("dynamic", 0) else {"type": f"tool-{name}"}
                )
                self._calls[id] = {**typed, **chunk, "state": "input-streaming"}
                self._raw[id] = ""
                self.parts.append(self._calls[id])
            case "tool-input-delta":
                id = chunk["toolCallId"]
                assert self._calls[id]["state"] == "input-streaming", "the reader would take its output away"
                self._raw[id] += chunk["inputTextDelta"]
            case "tool-approval-response":
                part = next(
                    part for part in self.calls if (part.get("approval") or {}).get("id") == chunk["approvalId"]
                )
                part["state"] = "approval-responded"
                part["approval"] |= {"id": chunk.pop("approvalId"), **chunk}
            case _:
                self._call(kind, chunk, self._calls[chunk["toolCallId"]])

    def _data(self, part: dict[str, Any]) -> None:
        if part.pop("transient", False):
            return
        for other in self.parts:
            if "id" in part and other["type"] == part["type"] and other.get("id") == part["id"]:
                other["data"] = part["data"]
                return
        self.parts.append(part)

    def _call(self, kind: str, chunk: dict[str, Any], part: dict[str, Any]) -> None:
        assert chunk.get("dynamic", False) is (part["type"] == "dynamic-tool") or kind not in FIELDS
        assert chunk.get("providerExecuted") == part.get("providerExecuted") or kind not in FIELDS
        if kind in FIELDS:
            part.pop("output", None), part.pop("preliminary", None)
        match kind:
            case "tool-input-available":
                assert self._in_step
                part |= {"state": "input-available", "input": chunk["input"]}
                part.pop("rawInput", None), part.pop("errorText", None)
            case "tool-input-error":
                assert self._in_step
                name = "input" if part["type"] == "dynamic-tool" else "rawInput"
                part |= {"state": "output-error", name: chunk["input"], "errorText": chunk["errorText"]}
            case "tool-approval-request":
                part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
            case "tool-output-denied":
                part["state"] = "output-denied"
            case "tool-output-error":
                assert part["state"] != "input-streaming"
                part |= {"state": "output-error", "errorText": chunk["errorText"]}
            case "tool-output-available":
                assert part["state"] != "input-streaming"
                part |= {"state": "output-available", "output": chunk["output"]}
                part |= {"preliminary": True} if chunk.get("preliminary") else {}
            case _:
                raise AssertionError(f"no such chunk: {kind}")


def _metadata(chunk: Mapping[str, Any]) -> dict[str, Any]:
    return {"providerMetadata": chunk["providerMetadata"]} if "providerMetadata" in chunk else {}


def _check_keys(value: Any) -> None:
    pending = [value]
    for _ in range(600):
        for item in pending:
            if isinstance(item, dict):
                assert "__proto__" not in item
                inner = item.get("constructor")
                assert not (isinstance(inner, dict) and "prototype" in inner)
        pending = [
            inner
            for item in pending
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not pending:
            return
    raise AssertionError("too deep for the reader")
