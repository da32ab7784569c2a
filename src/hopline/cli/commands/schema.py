"""``hopline schema``: the AsyncAPI document of an application."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from hopline.cli.app_loader import actors_of, find_application, require_path
from hopline.cli.errors import UsageError, one_line_errors
from hopline.cli.options import ApplicationOption, DebugOption
from hopline.cli.terminal import json_lines, write_line, write_wrapped
from hopline.schemas.asyncapi import asyncapi_document

EPILOG = """
**Examples**

    hopline schema --app shop:app
    hopline schema --app shop:app --title Shop --version 2.1.0 --output asyncapi.json

The document is [AsyncAPI 3](https://www.asyncapi.com/docs/reference/specification/v3.0.0) as JSON. For every message
that an actor handles it has a channel and an operation, for every answer a reply, and for every payload class its name,
its content type, its JSON Schema, and the fingerprint by which nodes compare their schemas. Answers are those of the
handlers' return annotations and of the request classes.

The application is made as for `hopline node`, and no node is started.
"""


def schema_command(
    app: ApplicationOption = None,
    title: Annotated[
        str | None, typer.Option("--title", help="Title of the application. Default: MODULE:NAME.")
    ] = None,
    version: Annotated[str, typer.Option("--version", help="Version of the application.")] = "1.0.0",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write. Default: standard output."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Print the AsyncAPI document of an application: its messages, their answers and their JSON Schemas."""
    with one_line_errors("schema", debug=debug):
        if output is not None and (output.is_dir() or not output.parent.is_dir()):
            problem = "is a folder" if output.is_dir() else "is in a folder that does not exist"
            raise UsageError(f"--output: {output} {problem}")
        path = require_path(app)
        document = asyncio.run(_document(path, title or path, version))
        if output is None:
            write_line(json_lines(document))
            return
        output.write_text(f"{json_lines(document)}\n", encoding="utf-8")
        messages = document["components"].get("messages", {})
        write_wrapped(f"{output}: {len(document['operations'])} operations, {len(messages)} messages")


schema_command.__doc__ = f"{schema_command.__doc__}\n{EPILOG}"


async def _document(path: str, title: str, version: str) -> dict[str, Any]:
    async with actors_of(find_application(path), path) as actors:
        return asyncapi_document(actors, title, version)
