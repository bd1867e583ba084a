"""`ComputerHandler`: the computer behind the `computer` tool, with one method for each action."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

import anyio

Point: TypeAlias = tuple[int, int]
"""Pixels from the left and from the top edge of the display, as in a screenshot."""

Region: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels. The right and bottom edges are exclusive."""

ScrollDirection: TypeAlias = Literal["up", "down", "left", "right"]
"""The direction in which the wheel scrolls the display."""


class ComputerHandler(ABC):
    """A display, a mouse and a keyboard, for `Computer`.

        class Kiosk(ComputerHandler):
            async def screenshot(self) -> bytes:
                return await self._camera.png()

            async def left_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
                await self._robot.tap(at)
                return None

    A subclass implements `screenshot` and any other actions that its computer supports, with the same parameters. The
    model gets an error for the others. Arguments have been checked: points are on the display, texts are short and
    without control characters, and `seconds` are 0 to 300. Key names are the model's own, in the style of `xdotool`
    (`ctrl+a`, `Page_Down`). Look them up in a table, and never pass them to a shell.

    An action returns `None`, or a line for the model, for example about a dialog that it caused. If it raises an
    exception, the action fails, and the later actions of the turn do not run. The model gets the text of a `ToolError`
    unchanged, and other exceptions as `Class: message`.

    Cancellation: an action may stop halfway, but must leave no key or button pressed.

    Args:
        width: Width of the display and of each screenshot, in pixels. Models point well at the default, XGA, and
            the API does not scale it down for any of them.
        height: Their height in pixels.

    Attributes:
        display_number: Number of an X11 display. Older versions of the tool send it to the model.
    """

    display_number: int | None = None

    def __init__(self, *, width: int = 1024, height: int = 768) -> None:
        self.width = width
        self.height = height

    @abstractmethod
    async def screenshot(self) -> bytes:
        """Return the complete display as a PNG, JPEG, GIF or WebP file of `width` by `height` pixels."""

    async def zoom(self, region: Region) -> bytes:
        """Return a part of the display, enlarged, as an image file like that of `screenshot`."""
        raise NotImplementedError

    async def cursor_position(self) -> Point:
        """Return the position of the mouse."""
        raise NotImplementedError

    async def mouse_move(self, at: Point) -> str | None:
        """Move the mouse."""
        raise NotImplementedError

    async def left_mouse_down(self) -> str | None:
        """Press the left button at the mouse's position, and keep it pressed."""
        raise NotImplementedError

    async def left_mouse_up(self) -> str | None:
        """Release the left button."""
        raise NotImplementedError

    async def left_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click.

        Args:
            at: The position. `None` uses the mouse's position.
            holding: Keys to hold during the click, for example `ctrl+shift`.
        """
        raise NotImplementedError

    async def right_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click with the right button. Arguments are those of `left_click`."""
        raise NotImplementedError

    async def middle_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click with the middle button. Arguments are those of `left_click`."""
        raise NotImplementedError

    async def double_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click twice. Arguments are those of `left_click`."""
        raise NotImplementedError

    async def triple_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click three times. Arguments are those of `left_click`."""
        raise NotImplementedError

    async def left_click_drag(self, start: Point, end: Point, *, holding: str | None = None) -> str | None:
        """Press the left button at one point and release it at another. `holding` is as for `left_click`."""
        raise NotImplementedError

    async def scroll(
        self, direction: ScrollDirection, clicks: int, at: Point | None = None, *, holding: str | None = None
    ) -> str | None:
        """Turn the wheel by 0 to 100 clicks. The other arguments are those of `left_click`."""
        raise NotImplementedError

    async def type(self, text: str) -> str | None:
        """Type a text. A line feed is the Enter key, a tab the Tab key. It has no other control characters."""
        raise NotImplementedError

    async def key(self, keys: str, *, repeat: int = 1) -> str | None:
        """Press a key, or several together (`ctrl+a`), 1 to 100 times."""
        raise NotImplementedError

    async def hold_key(self, keys: str, seconds: float) -> str | None:
        """Press keys, as for `key`, and release them after `seconds`."""
        raise NotImplementedError

    async def wait(self, seconds: float) -> str | None:
        """Wait for `seconds`."""
        await anyio.sleep(seconds)
        return None
