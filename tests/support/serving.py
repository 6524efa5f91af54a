"""A server in a thread of this process, and the least of a client."""

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from anydepth.serve.app import app_of
from anydepth.serve.bodies import JSON, Limits
from anydepth.serve.gauges import Gauges
from anydepth.serve.listen import bound, server_of
from anydepth.serve.worker import Worker


@dataclass
class Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


def ask(port, method, path, body=None, kind=JSON):
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        content = json.dumps(body).encode() if isinstance(body, dict | list) else body
        connection.request(method, path, content, {} if kind is None else {"Content-Type": kind})
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


@contextmanager
def serving(forms, p99_ms=2000.0, limits=None, batch_seconds=0.001):
    """A server at a free port, which is yielded with its worker and uvicorn's server."""
    gauges, limits = Gauges(), limits or Limits()
    worker = Worker(forms, p99_ms, limits.examples, batch_seconds, gauges)
    is_ready = threading.Event()
    with bound("127.0.0.1", 0) as at:
        server = server_of(app_of(forms, worker, gauges, limits), is_ready.set, 10)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
        thread.start()
        assert is_ready.wait(20)
        try:
            yield at.getsockname()[1], worker, server
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def send_raw(port, content, wait=0.0, is_read=True):
    """Bytes as they are; what comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as made:
        made.sendall(content)
        time.sleep(wait)
        return made.recv(65536) if is_read else b""
