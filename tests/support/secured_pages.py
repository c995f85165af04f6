"""Asking for pages that are by certificate, as a client that knows TLS."""

import asyncio
import contextlib
import ssl
from pathlib import Path

from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.running.page_asking import PageFiles


def page_files(files: TlsFiles) -> PageFiles:
    return PageFiles(authority=files.authority, certificate=files.certificate, key=files.key)


def showing(files: TlsFiles | None, authority: Path) -> ssl.SSLContext:
    """Give a context that shows a certificate, or none, and trusts an authority."""
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


async def asked(port: int, request: bytes, context: ssl.SSLContext) -> tuple[int, str]:
    """Ask as a client that knows TLS; raises ``OSError`` if the connection is ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(request)
        answer = (await reader.read()).decode()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if not answer:
        raise ConnectionResetError("no answer")
    head, _, body = answer.partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head
    return int(head.split(" ")[1]), body
