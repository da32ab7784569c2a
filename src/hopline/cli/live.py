"""Tables that are drawn once, or again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rich.console import RenderableType
from rich.live import Live

from hopline.cli.console import make_console, say_json

Look = Callable[[], Awaitable[Any]]


async def show(
    look: Look, draw: Callable[[Any], RenderableType], *, as_json: bool, watch: bool, interval: float
) -> None:
    """Look, and show what was seen: once, or until Ctrl-C."""
    console = make_console()
    if as_json:
        while True:
            say_json(await look())
            if not watch:
                return
            await asyncio.sleep(interval)
    if not watch:
        console.print(draw(await look()))
        return
    if not console.is_terminal:  # where nothing can be drawn over
        while True:
            console.print(draw(await look()))
            await asyncio.sleep(interval)
    with Live(draw(await look()), console=console, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(interval)
            live.update(draw(await look()), refresh=True)
