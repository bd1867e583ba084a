"""Find secrets in texts: `secret_spans`, and the names of fields that hold one."""

from __future__ import annotations

from .finding import FindSecrets, finding_also, secret_spans
from .names import is_secret_name
from .spans import REDACTED, SecretSpan

__all__ = ["REDACTED", "FindSecrets", "SecretSpan", "finding_also", "is_secret_name", "secret_spans"]
