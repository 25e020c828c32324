package org.openstack.storlet.common;

import java.util.ArrayList;
import java.util.Map;

/**
 * A storlet: a function from input streams to an output stream.
 *
 * <p>The class needs a constructor without arguments. One instance is made per Java process and
 * {@link #invoke} is called again for each invocation, one at a time; fields keep their values from
 * one invocation to the next.
 */
public interface IStorlet {
    /**
     * Runs the storlet once.
     *
     * @param inStreams the inputs in the order of the request, at least one
     * @param outStreams one element, a {@link StorletObjectOutputStream}
     * @param parameters of the request; {@code storlet_execution_path} is the folder of the storlet
     *     and its dependencies
     * @param logger writes to the log of this invocation
     * @throws StorletException when the invocation has failed; its message is sent to the caller
     */
    void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException;
}
