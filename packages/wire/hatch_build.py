"""The compiled wheel: mypyc compiles the hot modules, which `pyproject.toml` lists, when a wheel is built.

`EAGERSTREAM_COMPILE` in the environment decides:

- `1`: compile, and fail if that is impossible.
- `0`: leave them as plain Python. The build then needs only hatchling.
- `auto`, or not set: compile if this is CPython with a GIL, its headers and a C compiler. If compiling fails, the wheel
  is pure Python.

Both wheels contain the same source, for tracebacks, type checkers and `EAGERSTREAM_PURE=1`.

The package hatch-mypyc compiles, too, but builds inside the source tree. The compiled modules that it leaves there hide
the source from an editable installation. It also moves `pyproject.toml` away during the build.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MODES: Final = ("auto", "0", "1")
_MODE: Final = os.environ.get("EAGERSTREAM_COMPILE") or "auto"

# The shared library of the modules. mypyc derives their `__file__` from its place, and takes the right one for granted
# only if it is next to the package.
_SHARED: Final = "eagerstream_wire_compiled"


class CompiledWheel(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel, and gives it the tag of this platform and this Python."""

    _directory: TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Return the packages that the build needs besides hatchling."""
        return [] if _missing() else ["mypy[mypyc]==2.4.1", "setuptools==84.2.1"]  # as in the group `build`

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is packed. An editable installation runs the source."""
        if version == "editable":
            return
        if reason := _missing():
            self._leave_out(reason)
            return
        self._directory = TemporaryDirectory(prefix="eagerstream-")  # until `finalize`: the wheel is packed from there
        try:
            libraries = _compile(Path(self.root) / "src", self.config["modules"], Path(self._directory.name))
        except (Exception, SystemExit) as error:  # mypyc exits if it refuses a source
            if _MODE == "1":
                raise
            self._leave_out(f"{type(error).__name__}: {error}")
            return
        build_data["force_include"].update(libraries)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Remove the compiled libraries after the wheel is packed."""
        if self._directory is not None:
            self._directory.cleanup()

    def _leave_out(self, reason: str) -> None:
        if _MODE != "0":
            self.app.display_warning(f"The wheel is pure Python, without compiled modules: {reason}")


def _missing() -> str:
    """Return the reason not to compile; empty if nothing is known to be missing."""
    if _MODE not in _MODES:
        raise ValueError(f"EAGERSTREAM_COMPILE is {_MODE!r}, and must be one of {', '.join(_MODES)}")
    if _MODE == "0":
        return "EAGERSTREAM_COMPILE=0"
    if _MODE == "1":
        return ""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "only CPython with a GIL runs them"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "the headers of Python are missing (python3-dev)"
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC")  # none on Windows, where setuptools searches
    if compiler and shutil.which(shlex.split(compiler)[0]) is None:
        return f"the C compiler {compiler} is missing"
    return ""


def _compile(source: Path, modules: list[str], directory: Path) -> dict[str, str]:
    """Return the compiled libraries: the path of each, and its path in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    # Without the project's settings: an isolated build lacks the packages that they require.
    options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={directory / 'mypy'}"]
    files = [f"{module.replace('.', '/')}.py" for module in modules]
    # Tracebacks name the files as mypyc got them. Relative names are found in the user's site-packages, and are the
    # same for each build.
    with chdir(source):
        extensions = mypycify([*options, *files], group_name=_SHARED, debug_level="0", target_dir=str(directory / "c"))
        docstrings = {name: text for file in files for name, text in _docstrings(Path(file))}
    generated = directory / "c" / f"__native_{_SHARED}.c"
    code = _documented(generated.read_text(encoding="utf-8"), docstrings)
    generated.write_text(_copied_completely(_undeletable(code)), encoding="utf-8")
    command = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib = str(directory / "lib")
    command.build_temp = str(directory / "objects")
    command.ensure_finalized()
    command.run()
    return {path: str(Path(path).relative_to(directory / "lib")) for path in command.get_outputs()}


# mypyc leaves docstrings out, and they cannot be set at run time. They are put into the tables of the generated C. A
# fuzz target compares them with those of the source.

_END_OF_SIGNATURE: Final = "\n--\n\n"
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_FUNCTION: Final = re.compile(rf"(\(PyCFunction\)CPyPy_(\w+),\s+METH_[A-Z_ |]+, PyDoc_STR\()(NULL|{_STRING})\)")
_PROPERTY: Final = re.compile(r"(\(getter\)(\w+),\s+(?:NULL|\(setter\)\w+),\s+)NULL, NULL\}")
_CLASS: Final = re.compile(
    rf"(PyTypeObject CPyType_(\w+)_template_ = \{{(?:(?!\}};).)*?\.tp_doc = PyDoc_STR\()(NULL|{_STRING})\)", re.DOTALL
)


def _docstrings(file: Path) -> Iterator[tuple[str, str]]:
    """Yield each docstring of a module with the name that mypyc gives to its object in C."""

    def found(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            name = f"{prefix}___{node.name}"
            if (text := ast.get_docstring(node, clean=False)) and not _is_setter(node):
                yield name, _signature(node) + text
                yield f"{prefix}_get_{node.name}", text  # if it is a property
            if isinstance(node, ast.ClassDef):
                yield from found(node.body, name)

    return found(ast.parse(file.read_text(encoding="utf-8")).body, file.stem)


def _signature(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the signature of a class as `inspect` reads it from the beginning of a docstring; "" if it has none."""
    # mypyc writes that of a function, and that of a class if all its defaults are literals. Only these can be written:
    # the others are `...`, as in stubs.
    if not isinstance(node, ast.ClassDef):
        return ""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            given = member.args
            for argument in (*given.args, *given.kwonlyargs):
                argument.annotation = None
            given.defaults = [_literal(default) for default in given.defaults]
            given.kw_defaults = [default and _literal(default) for default in given.kw_defaults]
            del given.args[0]
            return f"{node.name}({ast.unparse(given)}){_END_OF_SIGNATURE}"
    return ""


def _literal(default: ast.expr) -> ast.expr:
    return default if isinstance(default, ast.Constant) else ast.Constant(...)


def _is_setter(node: ast.ClassDef | ast.FunctionDef) -> bool:
    return any(isinstance(decorator, ast.Attribute) and decorator.attr == "setter" for decorator in node.decorator_list)


def _documented(code: str, docstrings: dict[str, str]) -> str:
    """Return the C code with the docstrings, each behind the signature that mypyc has put there."""

    def with_signature(match: re.Match[str]) -> str:
        head, name, signature = match.groups()
        text = docstrings.get(name)
        if text is None:
            return match[0]
        has_none = signature == "NULL" or _END_OF_SIGNATURE in text
        return f"{head}{'' if has_none else signature} {_c_string(text)})"

    def of_property(match: re.Match[str]) -> str:
        text = docstrings.get(match[2])
        return match[0] if text is None else f"{match[1]}{_c_string(text)}, NULL}}"

    code = _FUNCTION.sub(with_signature, code)
    return _PROPERTY.sub(of_property, _CLASS.sub(with_signature, code))


def _c_string(text: str) -> str:
    """Return a literal of C, in UTF-8. Octal escapes have at most three digits, so nothing after one belongs to it."""
    escaped = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(escaped)}"'


# `del` calls the setter of a property without a value. The setters of mypyc do not expect that, and end the process.

_SETTER: Final = re.compile(r"(_set_(\w+)\(\w+ \*self, PyObject \*value, void \*closure\)\s+\{\n)(?=\s+char retval)")


def _undeletable(code: str) -> str:
    """Return the C code with setters of properties that refuse to delete, as those of Python do."""
    raising = """PyErr_Format(PyExc_AttributeError, "property '%s' of '%s' object has no deleter", "NAME","""
    refusal = f"if (value == NULL) {{ {raising} Py_TYPE(self)->tp_name); return -1; }}\n"
    return _SETTER.sub(lambda match: match[1] + refusal.replace("NAME", match[2]), code)


# `copy` and `pickle` take the attributes that mypyc knows, and lose those of subclasses in plain Python.

_GET_STATE: Final = """
static PyObject *eagerstream_get_state(PyObject *self, PyObject *Py_UNUSED(unused)) {
    PyObject *state = CPyPickle_GetState(self);
    PyObject *attributes = state == NULL ? NULL : PyObject_GetAttrString(self, "__dict__");
    if (attributes == NULL) {
        if (state != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
            return state;
        }
    } else if (PyDict_Update(state, attributes) == 0) {
        Py_DECREF(attributes);
        if (PyDict_GetItemString(state, "__dict__") == NULL || PyDict_DelItemString(state, "__dict__") == 0) {
            return state;
        }
        attributes = NULL;
    }
    Py_XDECREF(attributes);
    Py_XDECREF(state);
    return NULL;
}
"""


def _copied_completely(code: str) -> str:
    """Return the C code with a `__getstate__` that adds the attributes of the instance's dict."""
    code = code.replace("(PyCFunction)CPyPickle_GetState", "(PyCFunction)eagerstream_get_state")
    first_table = code.index("static PyMethodDef ")
    return f"{code[:first_table]}{_GET_STATE}{code[first_table:]}"
