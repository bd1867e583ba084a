"""The exceptions inside a group, as those who report one error want them."""

from __future__ import annotations


def members_of(error: BaseException) -> list[BaseException]:
    """Return the exceptions of a group and of its nested groups, in order; for no group, the exception itself."""
    members: list[BaseException] = []
    pending = [error]
    while pending:
        member = pending.pop()
        if isinstance(member, BaseExceptionGroup):
            pending += reversed(member.exceptions)
        else:
            members.append(member)
    return members


def alone_in(error: BaseException) -> BaseException:
    """Return the exception without the groups that hold it alone."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
