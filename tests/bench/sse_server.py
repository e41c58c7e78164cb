"""The server that streams are measured against: plain sockets in a process of its own, so that its work is not counted.

`sse_server.py whole`: standard input is an answer, which every request gets. `sse_server.py steps COUNT`: waits until so many
requests are there, and then sends each of them one event per line of standard input. The first line it prints is its port.
"""

import re
import socket
import sys

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
_FRAME = (
    b'data: {"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012","object":"chat.completion.chunk","created":1800000000,'
    b'"model":"model-2027-01-15","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,'
    b'"delta":%b,"logprobs":null,"finish_reason":%b}]}\n\n'
)
EVENT = _FRAME % (b'{"content":" four"}', b"null")
LAST = (_FRAME % (b"{}", b'"stop"'), b"data: [DONE]\n\n")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def answer(events: int, *, is_chunked: bool) -> bytes:
    """A whole stream; in chunks of one event each, as most servers send them, or up to the end of the connection."""
    if is_chunked:
        body = b"".join([chunk(EVENT) * events, *map(chunk, LAST), chunk(b"")])
        return HEAD + CHUNKED + b"\r\n" + body
    return HEAD + b"connection: close\r\n\r\n" + b"".join([EVENT * events, *LAST])


def whole(listener: socket.socket, data: bytes) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            read_request(connection)
            connection.sendall(data)


def steps(listener: socket.socket, count: int) -> None:
    connections = []
    for _ in range(count):
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections.append(connection)
    for connection in connections:
        read_request(connection)
        connection.sendall(HEAD + CHUNKED + b"\r\n")
    event = chunk(EVENT)
    for _ in sys.stdin.buffer:
        for connection in connections:
            connection.sendall(event)
    for connection in connections:
        connection.sendall(b"".join([*map(chunk, LAST), chunk(b"")]))
        connection.close()


def read_request(connection: socket.socket) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    missing = (int(length[1]) if length else 0) - len(body)
    while missing > 0:
        missing -= len(_more(connection))


def _more(connection: socket.socket) -> bytes:
    piece = connection.recv(1 << 16)
    if not piece:
        raise ConnectionError("expected a whole request, found the end of the connection")
    return piece


def main() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=8192) as listener:
        print(listener.getsockname()[1], flush=True)
        if sys.argv[1] == "whole":
            whole(listener, sys.stdin.buffer.read())
        else:
            steps(listener, int(sys.argv[2]))


if __name__ == "__main__":
    main()
