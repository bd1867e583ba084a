"""Which model is asked, and through which client."""

from __future__ import annotations

from typing import Any, Final

from .._clients import DEFAULT_MODEL, default_model
from .._deprecation import deprecated

_RETIRED: Final = ("claude-2", "claude-instant", "claude-3-opus", "claude-3-sonnet", "anthropic.claude-v2")
"""How the ids begin that programs for anthropic-tools had."""


def model_named(model: str, *, first_party: bool, stacklevel: int) -> str:
    """The id of the model; `"default"` is that of `ANTHROPIC_MODEL`, or else one of today.

    Args:
        model: As given.
        first_party: The client is not Bedrock's.
        stacklevel: Whose line a retired model is told of at, as of `warnings.warn`.

    Raises:
        ValueError: The default is asked for, and the client is Bedrock's, which has other ids.
    """
    if model == "default":
        if not first_party:
            raise ValueError("With first_party=False a model is required: the id of a model of Bedrock.")
        return default_model()
    if model.startswith(_RETIRED):
        current = f"{DEFAULT_MODEL}, for example" if first_party else "one that Bedrock has"
        instead = f"it was retired, and requests for it fail; name one of today: {current}"
        deprecated(f"The model {model}", instead, stacklevel=stacklevel)
    return model


def make_client(*, first_party: bool) -> Any:
    """A client with what the environment says: the API's, or Bedrock's.

    Raises:
        ValueError: It is Bedrock's, and no region is known.
    """
    import anthropic

    return anthropic.AsyncAnthropic() if first_party else anthropic.AsyncAnthropicBedrock()
