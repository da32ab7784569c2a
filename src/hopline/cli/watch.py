"""Views of a running network: printed once, or refreshed until Ctrl-C (``--watch``)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rich.console import RenderableType
from rich.live import Live

from hopline.cli.terminal import make_console, write_json

Fetch = Callable[[], Awaitable[Any]]
Draw = Callable[[Any], RenderableType]


async def show(fetch: Fetch, draw: Draw, *, as_json: bool, watch: bool, interval: float) -> None:
    """Fetch a document and print it; with `watch`, do so again after every `interval`.

    Args:
        fetch: Returns the document.
        draw: Returns what to print of it.
        as_json: Write the document itself, one JSON object a line.
        watch: Repeat until interrupted. On a terminal the new view replaces the old one.
        interval: Seconds between two views.
    """
    console = make_console()

    async def show_once() -> None:
        document = await fetch()
        if as_json:
            write_json(document)
        else:
            console.print(draw(document))

    is_redrawn = watch and console.is_terminal and not as_json
    if not is_redrawn:
        await show_once()
        while watch:
            await asyncio.sleep(interval)
            await show_once()
        return
    with Live(draw(await fetch()), console=console, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(interval)
            live.update(draw(await fetch()), refresh=True)
