"""Swift's ``s3api`` with ``SelectObjectContent``.

::

    [filter:s3api]
    use = egg:swift-storlets#s3api

It takes the place of ``egg:swift#s3api``, has its options, and answers all other requests as it
does.  The storlet filter is to its right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swift.common.middleware.s3api import s3api
from swift.common.middleware.s3api.acl_handlers import ObjectAclHandler
from swift.common.registry import register_swift_info

from storlet_middleware.s3select.controller import SelectController, is_select


class SelectMiddleware(s3api.S3ApiMiddleware):
    """The filter."""

    def handle_request(self, req: Any) -> Any:
        """The answer to a request that ``s3api`` has parsed."""
        if not is_select(req):
            return super().handle_request(req)
        req.set_acl_handler(ObjectAclHandler(req, self.logger))
        return SelectController(self.app, self.conf, self.logger).POST(req)


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[Any], Any]:
    """Paste entry point; the options are those of ``s3api``."""
    # It registers what /info shows of s3api.
    s3api.filter_factory(global_conf, **local_conf)
    register_swift_info("s3api", select_object_content=True)
    conf = global_conf | local_conf

    def select_filter(app: Any) -> SelectMiddleware:
        return SelectMiddleware(s3api.ListingEtagMiddleware(app), conf)

    return select_filter
