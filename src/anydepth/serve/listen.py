"""Uvicorn around the application: one process, one event loop, signals that end it when all is answered."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from anydepth.errors import StorageError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class EndingServer(uvicorn.Server):
    """Says when it is ready, and keeps the signal that ended it, which uvicorn would raise once more."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]):
        super().__init__(config)
        self.ready, self.stopped_by = ready, 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopped_by = sig
        super().handle_exit(sig, frame)


def bound(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0: any free one. asyncio sends small answers at once only where TCP is named."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        told = getattr(error, "strerror", None) or error
        raise StorageError(f"cannot listen at {host}:{port}: {told}; choose another --host or --port") from None
    return made


def server_of(app: Starlette, ready: Callable[[], None], grace: float) -> EndingServer:
    """To be run with sockets; told to end, it answers what was accepted, for as long as `grace` seconds."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=round(grace), lifespan="on", ws="none"
    )
    return EndingServer(config, ready)
