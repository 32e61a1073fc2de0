"""A network between a front-end and its recorder, which breaks at the byte that a test names."""

import contextlib
import socket
import threading
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Break:
    """Where a connection ends, or falls silent: behind so many bytes of one side.

    Bytes count as they pass: those of TLS, where there is TLS.
    """

    sender: int | None = None
    recorder: int | None = None
    is_silent: bool = False


class Tunnel:
    """Passes connections on to a port. The first ones break as they are told to."""

    def __init__(self, port: int, *breaks: Break) -> None:
        self.behind = port
        self.breaks = list(breaks)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        self.accepting = threading.Thread(target=self._accept)
        self.accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self.listener)
        self.accepting.join()
        self._end(*self.sockets)
        for thread in self.threads:
            thread.join()
        for one in [self.listener, *self.sockets]:
            one.close()

    def url(self, url: str) -> str:
        """The address of the recorder behind it, through it."""
        return f"{url.rpartition(':')[0]}:{self.port}"

    @staticmethod
    def _end(*sockets: socket.socket) -> None:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.sockets.append(near)
                try:
                    far = socket.create_connection(("127.0.0.1", self.behind))
                except OSError:  # the recorder is not there
                    self._end(near)
                    continue
                self.sockets.append(far)
                broken = self.breaks.pop(0) if self.breaks else Break()
                for way in [(near, far, broken.sender), (far, near, broken.recorder)]:
                    pump = threading.Thread(target=self._pump, args=(*way, broken.is_silent))
                    self.threads.append(pump)
                    pump.start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, limit: int | None, is_silent: bool
    ) -> None:
        left = 1 << 62 if limit is None else limit
        with contextlib.suppress(OSError):
            while left and (data := source.recv(65_536)[:left]):
                sink.sendall(data)
                left -= len(data)
        if left or not is_silent:
            self._end(source, sink)
