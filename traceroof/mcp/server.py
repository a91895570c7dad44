"""The server: the official SDK's, with our tools and resources. stdout carries nothing else."""

import os
import signal
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

import traceroof
from traceroof.errors import TraceroofError
from traceroof.mcp import resources
from traceroof.mcp.answers import sentence, text
from traceroof.mcp.calls import CALLS, call_of, schema_of, words_of
from traceroof.mcp.roots import Roots
from traceroof.mcp.tools import Setup
from traceroof.mcp.workers import Workers

Context = ServerRequestContext[Any]

INSTRUCTIONS = """\
traceroof reads what GPU profilers write and says which wall every kernel hit, why, and what to try. \
The loop: diagnose(paths) once; next_capture(run) for the one command that decides most of what is \
open; run it; diagnose(paths) of the old and the new files together; change the code as the first \
entry says; profile again, five runs per side where times must decide; compare(base, head). \
`inconclusive` is an answer: `needs` says what is missing. Times end in _ns, shares are 0 to 1, null \
is unknown. An answer with `more` continues with that cursor."""


def serve(setup: Setup) -> None:
    """Serve over stdin and stdout until stdin ends. Raises TraceroofError for a root that is none."""
    from pathlib import Path

    Roots.of([Path(one) for one in setup.folders])
    anyio.run(_serve, setup)


async def _serve(setup: Setup) -> None:
    workers = Workers(setup)
    try:
        server = server_of(workers)
        async with anyio.create_task_group() as beside:
            if sys.platform != "win32":
                beside.start_soon(_until_signalled)
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
            beside.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await workers.end()


async def _until_signalled() -> None:
    """End at once when asked to: a thread that waits for stdin would hold a slower end up for ever.
    Workers end themselves when nobody listens to them any more."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            os._exit(_SIGNALLED + number)


# What a shell reports of a program that a signal ended, less the signal's number.
_SIGNALLED = 128


def server_of(workers: Workers) -> "Server[Any]":
    """The server of six tools and the rule cards."""

    async def list_tools(
        context: Context, asked: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(name) for name in CALLS])

    async def call_tool(
        context: Context, asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def told(done: int, total: int, what: str) -> None:
            await context.session.report_progress(done, total, what)

        arguments = asked.arguments or {}
        try:
            call_of(asked.name, arguments)
            answer = await workers.ask(asked.name, arguments, told)
        except TraceroofError as error:
            said = types.TextContent(type="text", text=sentence(error))
            return types.CallToolResult(content=[said], is_error=True)
        said = types.TextContent(type="text", text=text(answer))
        return types.CallToolResult(content=[said], structured_content=answer)

    return Server(
        "traceroof",
        version=traceroof.__version__,
        title="traceroof",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
    )


def _tool(name: str) -> types.Tool:
    kind = CALLS[name]
    return types.Tool(
        name=name,
        description=words_of(kind),
        input_schema=schema_of(kind),
        annotations=types.ToolAnnotations(
            # Files are only read; diagnose keeps what it read in the store.
            read_only_hint=False,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


async def _list_resources(
    context: Context, asked: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=resources.uri_of(one.id),
                name=one.id,
                description=one.title,
                mime_type=resources.MIME_TYPE,
            )
            for one in resources.listed()
        ]
    )


async def _list_templates(
    context: Context, asked: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(
        resource_templates=[
            types.ResourceTemplate(
                uri_template=resources.TEMPLATE,
                name="rule",
                description="The card of a rule: what it finds, when, what to try, how to refute it.",
                mime_type=resources.MIME_TYPE,
            )
        ]
    )


async def _read_resource(
    context: Context, asked: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(asked.uri)
    try:
        card = resources.card(uri)
    except TraceroofError as error:
        raise MCPError(types.INVALID_PARAMS, sentence(error)) from None
    content = types.TextResourceContents(uri=uri, mime_type=resources.MIME_TYPE, text=card)
    return types.ReadResourceResult(contents=[content])
