"""The reference, made from docstrings: what a `{names}` block becomes, and how the text of a docstring is read."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar, is_typeddict

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.nodes import find_pending_xref_condition

from .options import options_table
from .pages import BLOCK, names_in
from .public_names import (
    PublicName,
    assignment,
    attribute_docs,
    by_definition,
    is_public,
    members,
    own_keys,
    public_names,
    resolve,
)

OPTIONS: Final = re.compile(r"^```\{options\} (\S+)\n```$", re.MULTILINE)
_LONGEST_VALUE: Final = 300  # characters of a constant that are shown
_CODE: Final = re.compile(r"(``[^`]+``|`[^`]+`)(\w?)")
"""Code, and the letter that follows it (in the plural of a name). reStructuredText wants something in between."""
_NAPOLEON: Final[Any] = Config(napoleon_numpy_docstring=False, napoleon_use_rtype=False)
_BASES_OF_MANY: Final = (object, dict, tuple, Generic, Protocol)
_SECTIONS: Final = ("Args", "Attributes", "Example", "Examples", "Note", "Raises", "Returns", "Yields", "Sources")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what this module does with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_role("name", _name_role)
    app.connect("source-read", _expand)
    app.connect("autodoc-process-docstring", _read_docstring)
    app.connect("autodoc-process-signature", _hide_private_constructor)
    app.connect("autodoc-process-bases", _hide_private_bases)
    app.connect("doctree-read", _resolve_annotations)
    app.connect("doctree-read", _link_literals)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _expand(_app: Sphinx, _document: str, content: list[str]) -> None:
    """Replace the blocks of a page by directives of autodoc."""

    def directives(block: re.Match[str]) -> str:
        lines = [line for name in names_in(block[1]) for line in _directive(name)]
        return "\n".join(("```{eval-rst}", *lines, "```"))

    text = BLOCK.sub(directives, content[0])
    content[0] = OPTIONS.sub(lambda block: options_table(public_names()[f"eagerstream.{block[1]}"]), text)


def _directive(name: PublicName) -> Iterator[str]:
    value = name.value
    if inspect.isclass(value) and value.__module__.startswith("eagerstream"):
        yield f".. autoclass:: {name.full}"
        yield "   :members:"
        if shown := [attribute for attribute in attribute_docs(value) if is_attribute(value, attribute)]:
            yield f"   :exclude-members: {', '.join(shown)}"
        if _has_constants(value):
            yield "   :undoc-members:"
        if shown_bases(value):
            yield "   :show-inheritance:"
        if any(base.__module__.startswith("eagerstream") and not is_public(base) for base in value.__mro__[1:]):
            # A private base has no place of its own: its members are shown here, those of the others are not.
            others = [base.__name__ for base in value.__mro__[1:] if is_public(base) or not _is_ours(base)]
            yield f"   :inherited-members: {', '.join(others)}"
    elif inspect.isroutine(value):
        yield f".. autofunction:: {name.full}"
    else:
        yield from _constant(name)
    yield ""


def _is_ours(value: type) -> bool:
    return value.__module__.startswith("eagerstream")


def _has_constants(value: type) -> bool:
    return issubclass(value, Enum) or any(name.isupper() for name in vars(value))


def _constant(name: PublicName) -> Iterator[str]:
    found = assignment(name)
    if found is None:
        raise LookupError(f"{name.full}: its definition was not found")
    shown = " ".join(found.value.split())
    shown = shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]} ..."
    if "TypeAlias" in found.annotation or isinstance(name.value, TypeVar):
        kind = "a type variable" if isinstance(name.value, TypeVar) else "a type alias"
        yield f".. py:data:: {name.full}"
        note = [f"This is {kind}:", "", ".. code-block:: python", "", f"   {name.name} = {shown}"]
    else:
        yield f".. py:data:: {name.full}"
        yield f"   :value: {shown}"
        note = []
    doc = _as_rst(found.doc.splitlines())
    for line in ("", *doc, "", *note, "", *_also(name)):
        yield f"   {line}".rstrip()


def _also(name: PublicName) -> list[str]:
    if not name.aliases:
        return []
    return ["", f"Also as {' and '.join(f'``{alias}``' for alias in name.aliases)}.", ""]


def _read_docstring(app: Sphinx, _what: str, full: str, value: Any, *rest: Any) -> None:
    """Write a docstring as reStructuredText: programs become code blocks, attributes get their type and default."""
    options, lines = rest
    shown_attributes: list[str] = []
    if inspect.isclass(value):
        own = value.__doc__ if "__doc__" in vars(value) else None
        if is_made_by_dataclass(value):
            own = None
        lines[:] = _without_attributes(inspect.cleandoc(own or "").splitlines())
        shown_attributes = ["", *_attributes(value), ""]
    # As of a method, whatever it is: napoleon takes a colon in the first line of a property for the end of its type.
    lines[:] = str(GoogleDocstring(_as_rst(_returns(lines)), _NAPOLEON, app, "method", full, value, options)).split(
        "\n"
    )
    if found := public_names().get(full):
        lines += _also(found)
        if inspect.isclass(value):
            lines += _inherited(value)
    lines += shown_attributes


def is_made_by_dataclass(value: type) -> bool:
    """Return True if the docstring is the signature that `dataclass` writes."""
    return dataclasses.is_dataclass(value) and (value.__doc__ or "").startswith(f"{value.__name__}(")


def _returns(lines: Sequence[str]) -> list[str]:
    """Write the section `Returns:` as a field: napoleon takes all before a colon for a type, even in code."""
    written: list[str] = []
    inside = False
    for line in lines:
        if line == "Returns:":
            inside = True
            written += ["", ":returns:"]
        else:
            inside = inside and (not line or line.startswith(" "))
            # An indentation beyond the field's would be a quotation.
            written.append(f"    {line.strip()}".rstrip() if inside else line)
    return written


def _as_rst(lines: Sequence[str]) -> list[str]:
    """Turn indented programs into code blocks.

    Docstrings set a program apart by its indentation only. reStructuredText would take that for a quotation.
    """
    written: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        indented = line.startswith("    ")
        if indented and not inside and not before.strip() and _is_text(_last(written)):
            written += [".. code-block:: python", ""]
            inside = True
        elif line and not line.startswith(" "):
            inside = False
        written.append(line)
    return _CODE.sub(lambda code: f"{code[1]}\\ {code[2]}" if code[2] else code[1], "\n".join(written)).split("\n")


def _last(lines: Sequence[str]) -> str:
    return next((line for line in reversed(lines) if line.strip()), "")


def _is_text(line: str) -> bool:
    """Return True if a program may follow this line: it ends a paragraph, and nothing that has parts."""
    starts_list = re.match(r"[-*] |\d+\. ", line)
    opens = line.endswith("::") or line.startswith(".. ") or line.rstrip(":") in _SECTIONS
    return bool(line) and not line.startswith(" ") and not starts_list and not opens


def _without_attributes(lines: Sequence[str]) -> list[str]:
    kept, inside = [], False
    for line in lines:
        if line == "Attributes:":
            inside = True
        elif line and not line.startswith(" "):
            inside = False
        if not inside:
            kept.append(line)
    return kept


def _attributes(value: type) -> Iterator[str]:
    """Return the attributes of a class and of its private bases, each with its type and default."""
    documented: dict[str, tuple[type, list[str]]] = {}
    for base in reversed(value.__mro__):
        if base is value or (_is_ours(base) and not is_public(base)):
            documented |= {name: (base, text) for name, text in attribute_docs(base).items()}
    if is_typeddict(value):
        documented = {name: documented.get(name, (value, [])) for name in own_keys(value)}
    for name, (owner, text) in documented.items():
        if not is_attribute(value, name):
            continue  # autodoc shows it, with a docstring of its own
        yield f".. py:attribute:: {name}"
        if annotation := _annotation(owner, name):
            yield f"   :type: {annotation}"
        default = default_of(value, name)
        if default:
            yield f"   :value: {default}"
        yield ""
        yield from (f"   {line}".rstrip() for line in _as_rst(text))
        yield ""


def is_attribute(value: type, name: str) -> bool:
    """Return True if only the docstring of the class describes this attribute. A property may have its own."""
    member = inspect.getattr_static(value, name, None)
    return not (isinstance(member, property) and member.__doc__)


def _annotation(owner: type, name: str) -> str:
    for base in owner.__mro__:
        found = vars(base).get("__annotations__", {}).get(name)
        if found is not None:
            text = getattr(found, "__forward_arg__", found)
            return text if isinstance(text, str) else inspect.formatannotation(text)
    return ""


def default_of(value: type, name: str) -> str:
    """Return the default of a field of a data class as Python, empty if it has none that can be read at a glance."""
    if not dataclasses.is_dataclass(value):
        return ""
    for field in dataclasses.fields(value):
        if field.name == name and field.default is not dataclasses.MISSING:
            shown = str(field.default) if isinstance(field.default, Enum) else repr(field.default)
            return shown if len(shown) <= _LONGEST_VALUE and "<" not in shown else ""
    return ""


def _hide_private_constructor(
    _app: Sphinx, what: str, _full: str, value: Any, _options: Any, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Show no arguments if a caller could not make them: the object is returned by something else."""
    if what not in {"class", "exception"} or signature is None:
        return signature, result
    if issubclass(value, Enum) or is_typeddict(value):
        return "", None
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return signature, result
    if any(_is_private(str(parameter.annotation), value.__module__) for parameter in parameters):
        return "", None
    # A default that is no Python, `<factory>` for example, would keep Sphinx from reading the others.
    return re.sub(r"<[^<>]*>", "...", signature), result


def _is_private(annotation: str, module: str) -> bool:
    """Return True if an annotation has a class of the package that is not public."""
    space = vars(sys.modules[module])
    for word in re.findall(r"[A-Za-z_]\w*", annotation):
        value = space.get(word)
        if inspect.isclass(value) and _is_ours(value) and not is_public(value):
            return True
    return False


def _hide_private_bases(_app: Sphinx, _full: str, value: Any, _options: Any, bases: list[Any]) -> None:
    """Show the public base behind a private one, and none twice."""
    bases[:] = shown_bases(value)


def shown_bases(value: type) -> list[type]:
    """Return the public bases of a class; instead of a private one, those that it has itself."""
    shown: list[type] = []
    for base in value.__bases__:
        if base in _BASES_OF_MANY or is_typeddict(base):
            continue
        found = shown_bases(base) if _is_ours(base) and not is_public(base) else [base]
        shown += [one for one in found if one not in shown]
    return shown


def _inherited(value: type) -> Iterator[str]:
    """Return a line for each public base, with the members that a class has from it."""
    known = set(vars(value))
    for base in value.__mro__[1:]:
        own = [name for name in vars(base) if name in members(base)] if _is_ours(base) else []
        new = [name for name in own if name not in known]
        known |= set(vars(base))
        if new and is_public(base):
            full = by_definition()[f"{base.__module__}.{base.__qualname__}"].full
            links = ", ".join(f":py:obj:`{name} <{full}.{name}>`" for name in new)
            yield from ("", f"From :py:obj:`{base.__name__} <{full}>`: {links}.", "")


def _name_role(
    _role: str, _raw: str, text: str, _line: int, inliner: Any, _options: Any = None, _content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Set `text` as code, with a link if it is a public name: the docstrings write all code in single backticks."""
    env = inliner.document.settings.env
    return [
        _linked(
            nodes.unescape(text, restore_backslashes=True),
            env.ref_context.get("py:module") or "eagerstream",
            _owner(env),
        )
    ], []


def _owner(env: BuildEnvironment) -> str:
    module, owner = env.ref_context.get("py:module"), env.ref_context.get("py:class")
    return f"{module}.{owner}" if owner else ""


def _linked(text: str, module: str, owner: str = "") -> nodes.Node:
    literal = nodes.literal(text, text)
    target = resolve(text, module, owner)
    if target is None:
        return literal
    link = addnodes.pending_xref("", literal, refdomain="py", reftype="obj", reftarget=target, refexplicit=True)
    link["py:module"] = link["py:class"] = None
    return link


def _resolve_annotations(_app: Sphinx, doctree: nodes.document) -> None:
    """Give the names in signatures their place in the reference.

    Python's own rules for names would take `type` for an attribute of that name, and find several classes `Tool`. A
    name of another library becomes plain text, and so does a private one.
    """
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link.get("refdomain") != "py" or link.get("refexplicit") or not _is_in(link, addnodes.desc):
            continue
        target = resolve(link["reftarget"], link.get("py:module") or "eagerstream")
        if target is None:
            shown = find_pending_xref_condition(link, "resolved") or link  # the name without its module
            link.replace_self(shown.children)
        else:
            link.attributes.update({"reftarget": target, "reftype": "obj", "py:module": None, "py:class": None})
            link.attributes.pop("refspecific", None)


def _link_literals(app: Sphinx, doctree: nodes.document) -> None:
    """Link the code in the text of a page to the reference if it is the name of something there."""
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, addnodes.pending_xref | nodes.reference | nodes.title) or literal.children[1:]:
            continue
        text = literal.astext()
        if _is_in(literal, addnodes.desc) or not _stands_for_a_name(text):
            continue
        link = _linked(text, "eagerstream")
        if isinstance(link, addnodes.pending_xref):
            link["refdoc"] = app.env.docname
            literal.replace_self(link)


def _stands_for_a_name(text: str) -> bool:
    """Return True if a word of a page means a name: `TextDelta` and `eagerstream.run` do, `text` may be anything."""
    return bool(re.fullmatch(r"(eagerstream\w*\.[\w.]+|[A-Z]\w*[a-z]\w*(\.\w+)?|\w+\.\w+)(\(\))?", text))


def _is_in(node: nodes.Node, kind: type[nodes.Node]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kind):
            return True
    return False
