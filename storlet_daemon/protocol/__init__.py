"""The protocol between filter, sandbox and node daemon, version 1; specified in ``PROTOCOL.rst``.

``messages``
    a package: a frozen class per message, and ``parse``
``framing``
    send and receive one message with its descriptors
``descriptors``
    ownership of descriptors, and how it is passed on
``redaction``
    removes the values of secrets from texts and data about a run
``values``
    ``dataclass``, which compiles no code for each class

Typical use, the filter's side::

    from storlet_daemon.protocol import framing, messages

    framing.send(connection, invoke, [object_fd, pipe_write_end])
    received = framing.receive(connection)          # None: the peer closed
    event = received.message(messages.INVOCATION_EVENTS)

The functions neither wait nor poll: on a non-blocking socket they raise ``BlockingIOError``.
"""
