"""`ComputerHandler`: the computer behind the `computer` tool, one method for each action."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Literal, TypeAlias

import anyio

Point: TypeAlias = tuple[int, int]
"""Pixels from the left edge and from the top edge of the display, as a screenshot shows it."""

Region: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels; the right and the bottom edge are outside of it."""

Direction: TypeAlias = Literal["up", "down", "left", "right"]

DISPLAY_WIDTH: Final = 1024
DISPLAY_HEIGHT: Final = 768
"""XGA: the API scales it down for no model, and models point well at this size."""


class ComputerHandler(ABC):
    """A display, a mouse and a keyboard, for `Computer`.

        class Kiosk(ComputerHandler):
            async def screenshot(self) -> bytes:
                return await self._camera.png()

            async def left_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
                await self._robot.tap(at)
                return None

    A subclass has `screenshot` and whatever else its computer can do, with the parameters that the methods have here;
    what it leaves out is answered with an error.
    What arrives here has been checked: points are on the display, texts are short and without control characters,
    `seconds` are 0 to 300. Names of keys are the model's own, as `xdotool` writes them (`ctrl+a`, `Page_Down`): look
    them up in a table, and never hand them to a shell.

    An action gives nothing, or a line that the model is to read, for example of a dialog that it caused. What it raises
    fails the action, and the later ones of the turn are not run: a `ToolError` is told to the model in its own words,
    anything else as `Class: message`. Cancelling an action may leave it half done, but no key and no button pressed.

    Args:
        width: Of the display, and of every screenshot, in pixels.
        height: The same.

    Attributes:
        display_number: The number of an X11 display, which the older versions of the tool tell the model.
    """

    display_number: int | None = None

    def __init__(self, *, width: int = DISPLAY_WIDTH, height: int = DISPLAY_HEIGHT) -> None:
        self.width = width
        self.height = height

    @abstractmethod
    async def screenshot(self) -> bytes:
        """The whole display: a PNG, JPEG, GIF or WebP file of `width` by `height` pixels."""

    async def zoom(self, region: Region) -> bytes:
        """A part of the display, enlarged: an image file as of `screenshot`."""
        raise NotImplementedError

    async def cursor_position(self) -> Point:
        """Where the mouse is."""
        raise NotImplementedError

    async def mouse_move(self, at: Point) -> str | None:
        """Move the mouse."""
        raise NotImplementedError

    async def left_mouse_down(self) -> str | None:
        """Press the left button where the mouse is, and keep it pressed."""
        raise NotImplementedError

    async def left_mouse_up(self) -> str | None:
        """Let the left button go."""
        raise NotImplementedError

    async def left_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click.

        Args:
            at: Where; where the mouse is if it is None.
            holding: Keys that are pressed all the while: `ctrl+shift`.
        """
        raise NotImplementedError

    async def right_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click with the right button; as `left_click`."""
        raise NotImplementedError

    async def middle_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click with the middle button; as `left_click`."""
        raise NotImplementedError

    async def double_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click twice; as `left_click`."""
        raise NotImplementedError

    async def triple_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click three times; as `left_click`."""
        raise NotImplementedError

    async def left_click_drag(self, start: Point, end: Point, *, holding: str | None = None) -> str | None:
        """Press the left button at one point and let it go at another; `holding` as for `left_click`."""
        raise NotImplementedError

    async def scroll(
        self, direction: Direction, clicks: int, at: Point | None = None, *, holding: str | None = None
    ) -> str | None:
        """Turn the wheel by so many clicks, 0 to 100; the rest as for `left_click`."""
        raise NotImplementedError

    async def type(self, text: str) -> str | None:
        """Type a text; line feeds are the Enter key, tabs the Tab key, and no other control characters are in it."""
        raise NotImplementedError

    async def key(self, keys: str, *, repeat: int = 1) -> str | None:
        """Press a key, or several together (`ctrl+a`), 1 to 100 times."""
        raise NotImplementedError

    async def hold_key(self, keys: str, seconds: float) -> str | None:
        """Press keys, as for `key`, and let them go after so many seconds."""
        raise NotImplementedError

    async def wait(self, seconds: float) -> str | None:
        """Do nothing for so many seconds."""
        await anyio.sleep(seconds)
        return None
