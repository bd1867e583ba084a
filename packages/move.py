"""Move rooms of `eagerstream` into a package of their own, with all that names them. Run it on a clean checkout.

    python packages/move.py wire && make format

It moves the folders, and rewrites imports, dotted names and paths in every file under version control. What needs
judgement is left to the commit that follows.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

MOVES = {
    "wire": {
        "src/eagerstream/wire": "packages/wire/src/eagerstream_wire",
        "src/hatch_build.py": "packages/wire/hatch_build.py",
        "tests/wire": "packages/wire/tests",
        "tests/conformance": "packages/wire/tests/conformance",
        "conformance": "packages/wire/conformance",
    },
    "serving": {"src/eagerstream/_serving": "src/eagerstream/_support/serving", "tests/_serving": "tests/_support/serving"},
    "testing": {
        "src/eagerstream/testing": "packages/testing/src/eagerstream_testing",
        "src/eagerstream/capture": "packages/testing/src/eagerstream_testing/capture",
        "src/eagerstream/pytest_plugin": "packages/testing/src/eagerstream_testing/pytest_plugin",
        "tests/testing": "packages/testing/tests",
        "tests/capture": "packages/testing/tests/capture",
        "tests/pytest_plugin": "packages/testing/tests/pytest_plugin",
    },
    "progress": {
        "src/eagerstream/progress": "packages/progress/src/eagerstream_progress",
        "tests/progress": "packages/progress/tests",
        "clients/eagerstream-records": "packages/progress/clients/eagerstream-records",
        "tests/clients": "packages/progress/tests/clients",
    },
    "lab": {"src/eagerstream/latency": "packages/lab/src/eagerstream_lab", "tests/latency": "packages/lab/tests"},
    "toolkit": {
        "src/eagerstream/builtin": "packages/toolkit/src/eagerstream_toolkit",
        "tests/builtin": "packages/toolkit/tests",
    },
    "durable": {
        "src/eagerstream/journal": "packages/durable/src/eagerstream_durable/journal",
        "src/eagerstream/workers": "packages/durable/src/eagerstream_durable/workers",
        "src/eagerstream/integrations/ray": "packages/durable/src/eagerstream_durable/ray",
        "src/eagerstream/integrations/dbos": "packages/durable/src/eagerstream_durable/dbos",
        "src/eagerstream/integrations/temporal": "packages/durable/src/eagerstream_durable/temporal",
        "src/eagerstream/integrations/_engine_log.py": "packages/durable/src/eagerstream_durable/_engine_log.py",
        **{
            f"tests/integrations/{name}.py": f"packages/durable/tests/{name}.py"
            for name in (
                "dbos_child test_dbos_killed test_engine_log ray_cluster ray_tools test_ray test_ray_conformance "
                "test_ray_without_a_cluster temporal_keeper temporal_worker test_temporal_attacks test_temporal_killed"
            ).split()
        },
        "tests/journal": "packages/durable/tests/journal",
        "tests/workers": "packages/durable/tests/workers",
    },
    "adapters": {
        "src/eagerstream/integrations": "packages/adapters/src/eagerstream_adapters",
        "tests/integrations": "packages/adapters/tests",
    },
    "compat": {
        "src/eagerstream/compat": "packages/compat/src/eagerstream_compat",
        "tests/compat": "packages/compat/tests",
    },
}
"""Of each package: what moves where, as paths."""

_IMPORT = re.compile(r"^([ \t]*from )(\.+)([\w.]*)(?= import )", re.MULTILINE)
_LEFT_ALONE = re.compile(r"(^|/)(uv\.lock|package-lock\.json|move\.py)$|^tests/fuzz/corpus/|\.(png|svg|sse|jsonl|ico)$")


def dotted(path: str) -> str:
    """Return the module, or the package, of a path: without the folder of sources, and without the suffix."""
    return re.sub(r"^(?:packages/\w+/)?src/", "", path).removesuffix(".py").replace("/", ".")


def moved(path: str, moves: dict[str, str]) -> str:
    """Return where a file, or a module with slashes, lies after the moves."""
    for old, new in moves.items():
        if path == old or path.startswith(f"{old}/"):
            return new + path[len(old) :]
    return path


def with_imports(text: str, path: str, moves: dict[str, str]) -> str:
    """Return a module's source with relative imports as they are from its new place."""
    modules = {dotted(old): dotted(new) for old, new in moves.items() if "src/" in old}
    own = dotted(path).removesuffix(".__init__").split(".")
    package = own if path.endswith("__init__.py") else own[:-1]
    new_own = dotted(moved(path, moves)).removesuffix(".__init__").split(".")
    new_package = new_own if path.endswith("__init__.py") else new_own[:-1]

    def rewritten(match: re.Match[str]) -> str:
        head, dots, name = match.groups()
        target = ".".join([*package[: len(package) - len(dots) + 1], *filter(None, [name])])
        new = target
        for old_module, new_module in modules.items():
            if target == old_module or target.startswith(f"{old_module}."):
                new = new_module + target[len(old_module) :]
                break
        if new == target and new_package == package:
            return match[0]
        parts = new.split(".")
        if parts[0] != new_package[0]:
            return head + new
        common = 0
        while common < min(len(parts), len(new_package)) and parts[common] == new_package[common]:
            common += 1
        return head + "." * (len(new_package) - common + 1) + ".".join(parts[common:])

    return _IMPORT.sub(rewritten, text)


def with_names(text: str, moves: dict[str, str]) -> str:
    """Return a text with the dotted names and the paths as they are after the moves."""
    for old, new in moves.items():
        end = r"(?![\w-])" if "/" in old else "(?=/)"  # one word may be a word of a sentence
        text = re.sub(rf"(?:(?<=/main/)|(?<![\w./-])){re.escape(old)}{end}", new, text)
        if old.startswith("src/") and not old.endswith(".py"):  # as a path among the sources
            text = re.sub(rf"(?<![\w./-]){re.escape(old[4:])}(?![\w-])", re.sub(r"^.*?src/", "", new), text)
        if "/" not in old:
            continue
        old_name, new_name = (
            dotted(path) if path.startswith(("src/", "tests/", "packages/")) else path for path in (old, new)
        )
        if "." in old_name:
            text = re.sub(rf"(?<![\w./-]){re.escape(old_name)}(?![\w-])", new_name, text)
    return text


def main(name: str) -> None:
    """Move one package."""
    moves = MOVES[name]
    listed = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    for path in listed:
        file = Path(path)
        if _LEFT_ALONE.search(path) or file.is_symlink():
            continue
        try:
            text = old_text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path.endswith(".py") and "src/" in path:
            text = with_imports(text, path, moves)
            if moved(path, moves) != path:  # the core exports the names of wire
                text = re.sub(r"(?m)^([ \t]*from )eagerstream_wire(?= import )", r"\1eagerstream", text)
        if not path.startswith("conformance/"):  # which speaks of itself
            text = with_names(text, moves)
        if text != old_text:
            file.write_text(text, encoding="utf-8")
    for old, new in moves.items():
        Path(new).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", old, new], check=True)
    for path in {PurePosixPath(moved(path, moves)).parent for path in listed if path.endswith("__init__.py")}:
        marker = Path(path, "__init__.py")
        if (
            re.match(r"packages/\w+/tests", str(path)) and marker.exists()
        ):  # a second package `tests` would hide the first
            subprocess.run(["git", "rm", "--quiet", "--force", str(marker)], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
