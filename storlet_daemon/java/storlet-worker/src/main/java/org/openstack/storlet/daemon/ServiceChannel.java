package org.openstack.storlet.daemon;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.openstack.storlet.internal.ErrorCodes;
import org.openstack.storlet.services.DeniedException;
import org.openstack.storlet.services.ServiceException;
import org.openstack.storlet.services.UnavailableException;

/**
 * A run's way to the store: requests and replies on the socket that came with the invocation.
 *
 * <p>Threads of a storlet may send requests at the same time. One of those that wait reads the
 * socket and hands each reply to the thread that it is for. {@link #end} makes all of them throw,
 * and closes every descriptor; a thread that the storlet left behind keeps an object without any.
 */
final class ServiceChannel {
    private final SharedDescriptor socket;
    private final List<String> operations;

    /** Held while a request is sent: ids ascend in the order of the requests. */
    private final Object sending = new Object();
    private final JsonWriter writer = new JsonWriter();
    private long last;

    /** Only the reading thread uses these two. */
    private final byte[] message = new byte[Native.MESSAGE_MAX];
    private final int[] descriptors = new int[1 + Native.DESCRIPTORS_MAX];

    // The monitor of this object protects the rest.

    private final Set<Long> unanswered = new HashSet<>();
    /** Replies that their threads have not taken yet, by id. */
    private final Map<Long, ServiceReply> feeds = new HashMap<>();
    private final Map<Long, ServiceReply> answers = new HashMap<>();
    private final Map<Long, ServiceReply> ends = new HashMap<>();
    private final Set<SharedDescriptor> open = new HashSet<>();
    private boolean isReading;
    private boolean isOver;

    /**
     * Takes over the descriptor {@code socket}, which blocks.
     *
     * @param operations the services that the storlet declares
     */
    ServiceChannel(int socket, List<String> operations) {
        this.socket = new SharedDescriptor(socket);
        this.operations = operations;
    }

    /** The reply to a request that brings no stream; throws the failure that the store reports. */
    ServiceReply ask(ServiceRequest request) throws ServiceException {
        ServiceReply reply = answer(request);
        if (reply.descriptor() >= 0) {
            drop(reply);
            throw new IllegalArgumentException("the reply of the store has a stream");
        }
        return reply;
    }

    private ServiceReply answer(ServiceRequest request) throws ServiceException {
        return checked(await(begin(request), answers));
    }

    private static ServiceReply checked(ServiceReply reply) throws ServiceException {
        if (reply.isFailure()) {
            throw reply.refusal().exception();
        }
        return reply;
    }

    /**
     * A call on data: begins to write it into the input of the called storlet.
     *
     * @param source is read by a thread
     */
    CallInput feed(ServiceRequest request, InputStream source) throws ServiceException {
        ServiceReply reply = checked(await(begin(request), feeds, answers));
        return new CallInput(this, reply.id(), adopt(reply), source);
    }

    /** The reply to a call on data that was begun; it has no stream if the result is stored. */
    ServiceReply resultOf(CallInput input) throws ServiceException {
        return checked(await(input.id(), answers));
    }

    /** The stream that a reply has brought. */
    ServiceStream streamOf(ServiceReply reply) throws ServiceException {
        return new ServiceStream(this, reply, adopt(reply));
    }

    private long begin(ServiceRequest request) throws ServiceException {
        if (!operations.contains(request.service())) {
            throw new DeniedException(
                    request.operation() + " needs the service " + request.service() + "; the storlet declares "
                            + String.join(", ", operations),
                    ErrorCodes.SERVICE_UNDECLARED,
                    403);
        }
        return send(request);
    }

    /** The stream of the reply to one request. */
    ServiceStream open(ServiceRequest request) throws ServiceException {
        return streamOf(answer(request));
    }

    /** The object that a request begins. */
    CreatedObject create(ServiceRequest request) throws ServiceException {
        ServiceReply reply = answer(request);
        return new CreatedObject(this, reply.id(), adopt(reply));
    }

    /** Takes over the descriptor of a reply; the end of the run closes it, too. */
    private SharedDescriptor adopt(ServiceReply reply) throws ServiceException {
        if (reply.descriptor() < 0) {
            throw new IllegalArgumentException("the reply of the store has no stream");
        }
        SharedDescriptor adopted = new SharedDescriptor(reply.descriptor());
        synchronized (this) {
            if (!isOver) {
                open.add(adopted);
                return adopted;
            }
        }
        adopted.close();
        throw over();
    }

    /** Closes a descriptor of the run. */
    void release(SharedDescriptor descriptor) {
        synchronized (this) {
            open.remove(descriptor);
        }
        descriptor.close();
    }

    /** The bytes that the stream with this number had; throws if it is not complete. */
    long endOf(long id) throws ServiceException {
        return checked(await(id, ends)).bytes();
    }

    /** Throws if the run has ended. */
    synchronized void requireRun() throws ServiceException {
        if (isOver) {
            throw over();
        }
    }

    /** Ends the run: closes all descriptors, and ends the calls that threads wait in. */
    void end() {
        List<SharedDescriptor> left;
        synchronized (this) {
            isOver = true;
            left = new ArrayList<>(open);
            feeds.values().forEach(ServiceChannel::drop);
            feeds.clear();
            answers.values().forEach(ServiceChannel::drop);
            answers.clear();
            notifyAll();
        }
        for (SharedDescriptor descriptor : left) {
            descriptor.close();
        }
        socket.close();
    }

    /** Sends a request; its id, which is above those of all requests before. */
    private long send(ServiceRequest request) throws ServiceException {
        synchronized (sending) {
            request.write(writer, last + 1);
            last++;
            synchronized (this) {
                unanswered.add(last);
            }
            int number = socket.enter();
            if (number < 0) {
                throw over();
            }
            try {
                Native.send(number, writer.bytes(), writer.length(), -1);
            } catch (IOException cause) {
                throw gone(cause.getMessage(), cause);
            } finally {
                socket.leave();
            }
            return last;
        }
    }

    /** The reply {@code id} of the first table that has it. */
    @SafeVarargs
    private ServiceReply await(long id, Map<Long, ServiceReply>... tables) throws ServiceException {
        boolean isInterrupted = false;
        try {
            while (true) {
                synchronized (this) {
                    ServiceReply reply = take(id, tables);
                    while (!isOver && isReading && reply == null) {
                        try {
                            wait();
                        } catch (InterruptedException later) {
                            isInterrupted = true;
                        }
                        reply = take(id, tables);
                    }
                    if (isOver) {
                        throw over();
                    }
                    if (reply != null) {
                        return reply;
                    }
                    isReading = true;
                }
                try {
                    readOne();
                } finally {
                    synchronized (this) {
                        isReading = false;
                        notifyAll();
                    }
                }
            }
        } finally {
            if (isInterrupted) {
                // The reply is in the socket, so an interrupt must not lose it.
                Thread.currentThread().interrupt();
            }
        }
    }

    @SafeVarargs
    private static ServiceReply take(long id, Map<Long, ServiceReply>... tables) {
        for (Map<Long, ServiceReply> table : tables) {
            ServiceReply reply = table.remove(id);
            if (reply != null) {
                return reply;
            }
        }
        return null;
    }

    /** Reads one reply into its table. */
    private void readOne() throws ServiceException {
        int number = socket.enter();
        if (number < 0) {
            throw over();
        }
        int length;
        try {
            length = Native.receive(number, message, descriptors, Native.NO_LIMIT);
        } catch (IOException cause) {
            throw gone(cause.getMessage(), cause);
        } finally {
            socket.leave();
        }
        if (length == 0) {
            throw gone("the run is being ended", null);
        }
        ServiceReply reply;
        try {
            reply = ServiceReply.parse(message, length, descriptors);
        } catch (ProtocolError fault) {
            for (int i = 1; i <= descriptors[0]; i++) {
                Native.close(descriptors[i]);
            }
            // Unchecked, because it is no failure of the store: the run should fail.
            throw new IllegalArgumentException("the reply of the store is invalid: " + fault.getMessage());
        }
        put(reply);
    }

    private synchronized void put(ServiceReply reply) {
        if (isOver) {
            drop(reply);
        } else if (reply.isEnd() || reply.isFailure() && !unanswered.contains(reply.id())) {
            // A request that was answered has a stream, which has failed.
            ends.put(reply.id(), reply);
        } else if (reply.isFeeding()) {
            feeds.put(reply.id(), reply);
        } else {
            unanswered.remove(reply.id());
            answers.put(reply.id(), reply);
        }
    }

    private static void drop(ServiceReply reply) {
        if (reply.descriptor() >= 0) {
            Native.close(reply.descriptor());
        }
    }

    private static UnavailableException gone(String reason, Throwable cause) {
        UnavailableException failure = new UnavailableException("the store does not answer: " + reason, ErrorCodes.SERVICE_GONE, 503);
        failure.initCause(cause);
        return failure;
    }

    private static UnavailableException over() {
        return new UnavailableException("the run has ended, and with it its services", ErrorCodes.SERVICE_GONE, 503);
    }
}
