package org.openstack.storlet.internal;

/** Error codes of requests to the store: those that the API and the worker know. */
public final class ErrorCodes {
    public static final String BAD_REQUEST = "bad_request";
    public static final String LIMIT_OUTPUT = "storlet.limit.output";
    public static final String LIMIT_SERVICES = "storlet.limit.services";
    public static final String SERVICE_UNDECLARED = "services.undeclared";
    public static final String SERVICE_CHANGED = "services.changed";
    public static final String SERVICE_SHORT = "services.short";
    public static final String SERVICE_GONE = "services.gone";
    public static final String SERVICE_NONE = "services.none";

    private ErrorCodes() {}
}
