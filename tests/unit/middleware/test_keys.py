"""Keys of tenants and sandboxes."""

from __future__ import annotations

from storlet_middleware import keys


def test_keys_depend_on_the_whole_account_name_class_and_image() -> None:
    names = ["A" * 60 + "1", "A" * 60 + "2"]
    assert len({keys.tenant_key(name) for name in names}) == 2
    parts = [("a", "user", "i"), ("a", "admin", "i"), ("a", "user", "j"), ("b", "user", "i")]
    assert len({keys.sandbox_key(*part) for part in parts}) == 4
    assert len(keys.sandbox_key("a", "user", "i")) == 16
    assert len(keys.tenant_key("a")) == 32
