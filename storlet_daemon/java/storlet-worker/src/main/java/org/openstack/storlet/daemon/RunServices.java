package org.openstack.storlet.daemon;

import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import org.openstack.storlet.services.CreateOptions;
import org.openstack.storlet.services.Entry;
import org.openstack.storlet.services.ListQuery;
import org.openstack.storlet.services.ServiceException;
import org.openstack.storlet.services.Services;
import org.openstack.storlet.services.Stat;
import org.openstack.storlet.services.StoredInputStream;
import org.openstack.storlet.services.StoredOutputStream;
import org.openstack.storlet.services.StorletCall;

/** The services of one run, on its {@link ServiceChannel}. */
final class RunServices extends Services {
    private static final String READ = "read";
    private static final String WRITE = "write";
    private static final String DELETE = "delete";

    private final ServiceChannel channel;

    private RunServices(ServiceChannel channel) {
        this.channel = channel;
    }

    /** Begins the services of a run, and takes over their descriptor; null if it has none. */
    static RunServices begin(Invocation.Services granted) {
        if (granted == null) {
            return null;
        }
        RunServices begun = new RunServices(new ServiceChannel(granted.descriptor(), granted.operations()));
        setCurrent(begun);
        return begun;
    }

    /** Ends them, unless null: they and all their streams throw from now on. */
    static void end(RunServices services) {
        if (services != null) {
            setCurrent(null);
            services.channel.end();
        }
    }

    @Override
    protected StoredInputStream openPart(String path, Long first, Long last) throws ServiceException {
        ServiceRequest request = ObjectReader.request(path).count("start", first).count("end", last);
        ServiceStream stream = channel.open(request);
        Stat stat = stream.reply().facts();
        long start = first == null ? 0 : first;
        return new StoredObject(new ObjectReader(channel, path, start, stream, stat), stat);
    }

    @Override
    public Stat stat(String path) throws ServiceException {
        return channel.ask(new ServiceRequest("stat", READ).name("path", path)).facts();
    }

    @Override
    public Iterable<Entry> list(String container, ListQuery query) {
        String name = container.replaceAll("^/+|/+$", "");
        return () -> new Listing(channel, name, query);
    }

    @Override
    public void setMetadata(String path, Map<String, String> changes) throws ServiceException {
        channel.ask(new ServiceRequest("set_metadata", WRITE).name("path", path).texts("changes", changes));
    }

    @Override
    public StoredInputStream call(StorletCall call) throws ServiceException {
        ServiceRequest request = request(call).name("path", call.path());
        return new CallResult(channel, channel.open(request), null);
    }

    @Override
    public Stat callInto(StorletCall call, String output) throws ServiceException {
        return channel.ask(request(call).name("path", call.path()).name("output", output)).facts();
    }

    @Override
    public StoredInputStream call(StorletCall call, InputStream data) throws IOException {
        CallInput input = channel.feed(requestOnData(call), data);
        return new CallResult(channel, channel.streamOf(resultOf(input)), input);
    }

    @Override
    public Stat callInto(StorletCall call, InputStream data, String output) throws IOException {
        CallInput input = channel.feed(requestOnData(call).name("output", output), data);
        try {
            return resultOf(input).facts();
        } finally {
            input.close();
        }
    }

    /** The reply to a call on data; a source that cannot be read is the better reason. */
    private ServiceReply resultOf(CallInput input) throws IOException {
        try {
            return channel.resultOf(input);
        } catch (ServiceException failed) {
            input.close();
            input.requireSource();
            throw failed;
        }
    }

    private static ServiceRequest requestOnData(StorletCall call) throws ServiceException {
        if (call.path() != null) {
            throw new IllegalArgumentException("a call on data has no path: " + call.path());
        }
        return request(call);
    }

    private static ServiceRequest request(StorletCall call) throws ServiceException {
        ServiceRequest request = new ServiceRequest("call", "call").name("storlet", call.storlet());
        if (!call.parameters().isEmpty()) {
            request.texts("parameters", call.parameters());
        }
        for (StorletCall.Range range : call.ranges()) {
            request.range("ranges", range.first(), range.last());
        }
        return request;
    }

    @Override
    public StoredOutputStream create(String path, CreateOptions options) throws ServiceException {
        ServiceRequest request = new ServiceRequest("create", WRITE)
                .name("path", path)
                .text("content_type", options.contentType())
                .count("delete_after", options.deleteAfterSeconds());
        if (!options.metadata().isEmpty()) {
            request.texts("metadata", options.metadata());
        }
        return channel.create(request);
    }

    @Override
    public void copy(String source, String target) throws ServiceException {
        channel.ask(new ServiceRequest("copy", WRITE).name("source", source).name("target", target));
    }

    @Override
    public void delete(String path) throws ServiceException {
        channel.ask(new ServiceRequest("delete", DELETE).name("path", path));
    }
}
