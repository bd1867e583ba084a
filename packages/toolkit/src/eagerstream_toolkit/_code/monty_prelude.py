"""The names that code finds in Monty: the tools, `asyncio`, `ToolError` and `reset_session`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .sandbox import CodeFunction

START: Final = "_eager_start"
"""Start a call: `_eager_start(name, args, kwargs)` returns its id at once."""
WAIT: Final = "_eager_wait"
"""Wait for a call: `await _eager_wait(id)` returns its result."""
RESET: Final = "_eager_reset"
ASYNCIO: Final = "_eager[1]"
"""The object to which the name `asyncio` is bound."""


def prelude_for(functions: Sequence[CodeFunction]) -> str:
    """Return the statements to run before those of the model."""
    return _PRELUDE + "".join(f"{function.name} = _eager[0]({function.name!r})\n" for function in functions)


# A future of Monty lives as long as the statement that made it, and calling a function of the host does not work inside
# `map` or `sorted`. So calling a tool only makes a coroutine, as in Python. A call gets its future when it is awaited,
# and `create_task` starts it by its id, which later statements can wait for.
#
# `KeyboardInterrupt` is how code is cancelled: Monty has no CancelledError, and this is the one other exception that
# passes `except Exception`. Monty's own `gather` drops the other coroutines at the first exception, so their `finally`
# blocks would not run: each takes its interruption first.
_PRELUDE: Final = f"""\
def _eager_setup():
    import asyncio as real

    calls = {{}}
    interrupted = ["interrupted"]

    def begin(call):
        if call[0] is None:
            call[0] = {START}(call[1], call[2], call[3])

    async def run(call):
        begin(call)
        calls.pop(call[4], None)
        return await {WAIT}(call[0])

    def tool(name):
        def function(*args, **kwargs):
            call = [None, name, args, kwargs, None]
            coroutine = run(call)
            call[4] = id(coroutine)
            calls[call[4]] = (call, coroutine)
            return coroutine

        return function

    async def result(awaitable, return_exceptions):
        try:
            return await awaitable
        except KeyboardInterrupt:
            return interrupted
        except Exception as error:
            if return_exceptions:
                return error
            raise

    async def results(awaitables, return_exceptions):
        found = await real.gather(*[result(each, return_exceptions) for each in awaitables])
        if any(each is interrupted for each in found):
            raise KeyboardInterrupt("cancelled")
        return found

    async def nothing():
        pass

    class Asyncio:
        CancelledError = KeyboardInterrupt
        TimeoutError = TimeoutError

        def create_task(self, coroutine, *, name=None):
            if id(coroutine) not in calls:
                raise NotImplementedError(
                    "create_task() takes only the call of a tool here. Run other coroutines by asyncio.gather()"
                )
            begin(calls[id(coroutine)][0])
            return coroutine

        def ensure_future(self, coroutine):
            return self.create_task(coroutine)

        def gather(self, *awaitables, return_exceptions=False):
            for each in awaitables:
                if id(each) in calls:
                    begin(calls[id(each)][0])
            return results(awaitables, return_exceptions)

        async def sleep(self, delay, result=None):
            await real.sleep(delay)
            return result

        def run(self, main):
            return real.run(main)

    def reset_session():
        {RESET}()
        return nothing()

    return tool, Asyncio(), reset_session


_eager = _eager_setup()
asyncio = {ASYNCIO}
reset_session = _eager[2]
ToolError = RuntimeError
"""
