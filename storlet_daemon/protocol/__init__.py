"""The protocol between filter, sandbox and node daemon, version 1. ``PROTOCOL.rst`` beside this file is the law.

``messages``
    a frozen class per message, ``parse`` and ``fields``
``framing``
    one message on or off a socket, with its descriptors
``descriptors``
    who owns a descriptor, and how it is given away

Typical use, the filter's side::

    from storlet_daemon.protocol import framing, messages

    framing.send(connection, invoke, [object_fd, pipe_write_end])
    received = framing.receive(connection)          # None: the other side closed
    event = received.message(messages.INVOCATION_EVENTS)

The functions neither wait nor poll: on a non-blocking socket ``BlockingIOError`` goes to the caller.
"""
