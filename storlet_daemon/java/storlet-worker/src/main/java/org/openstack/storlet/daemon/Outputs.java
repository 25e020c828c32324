package org.openstack.storlet.daemon;

import java.util.ArrayList;
import java.util.List;
import org.openstack.storlet.common.StorletOutputStream;

/** The outputs of one invocation, by their numbers. All are closed in any case. */
final class Outputs {
    private final List<ObjectOutput> outputs;

    /** Takes over the descriptors of the outputs of {@code invocation}. */
    Outputs(Invocation invocation, Connection connection) {
        outputs = new ArrayList<>(invocation.outputs().size());
        for (int descriptor : invocation.outputs()) {
            outputs.add(new ObjectOutput(outputs.size(), descriptor, connection, invocation.metadataBytes()));
        }
    }

    /** A list that the storlet may change. */
    ArrayList<StorletOutputStream> lent() {
        return new ArrayList<>(outputs);
    }

    /**
     * Ends the outputs of a storlet that has returned.
     *
     * @return the first error, or null
     */
    Failure finish() {
        Failure first = null;
        for (ObjectOutput output : outputs) {
            Failure failure = output.finish();
            if (first == null) {
                first = failure;
            }
        }
        return first;
    }

    /**
     * The failure of a storlet that has raised {@code raised}; metadata that an output refused may
     * be the better reason.
     */
    Failure finishAfter(Throwable raised, Redaction redaction) {
        Failure failed = Failure.ofRun(raised, redaction);
        for (ObjectOutput output : outputs) {
            failed = output.finishAfter(failed);
        }
        return failed;
    }

    void abandon() {
        for (ObjectOutput output : outputs) {
            output.abandon();
        }
    }
}
