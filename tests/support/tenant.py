"""An account with the misbehaving storlet and an object.  No pytest here: ``make attack`` uses it,
too."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.accounts import prepare_account, unique
from tests.support.cluster import CHECKOUT
from tests.support.http import Client
from tests.support.storlets import Tool, declaration
from tests.support.waiting import wait_for

SOURCE = CHECKOUT / "tests/probe/storlets/gremlin.py"
CONTENT = b"the plain content of an object, which a storlet may see\n" * 100
DATA = "data"


@dataclass(frozen=True)
class Tenant:
    """A test account; ``path`` is a small object in it."""

    client: Client
    path: str = f"{DATA}/plain.txt"
    content: bytes = CONTENT

    @property
    def account(self) -> str:
        return self.client.account

    def tool(self, placement: str = "object", storlet: str = "gremlin.py") -> Tool:
        return Tool(self.client, storlet, placement)

    def upload(self, name: str, source: bytes, main: str = "Gremlin") -> str:
        """A Python storlet; its name."""
        answer = self.client.put(
            f"storlet/{name}", source, declaration("python", f"{name.removesuffix('.py')}.{main}")
        )
        assert answer.status == 201, answer
        return name

    def is_well(self, placement: str = "object") -> bool:
        """True if a run succeeds and returns the right bytes."""
        answer = self.tool(placement).get(self.path)
        return answer.status == 200 and answer.body == self.content and not answer.is_broken

    def warm_up(self, placement: str = "object") -> None:
        """Wait until a run works: short deadlines leave no time for the start of a sandbox beside
        other work."""
        wait_for(lambda: self.is_well(placement), 60, f"the first run of {self.account}")

    def count(self, key: str) -> int:
        """Count the runs signed with ``key`` that began."""
        answer = self.tool().get(self.path, "counted", of=key)
        assert (answer.status, answer.is_broken) == (200, False), answer
        assert answer.body, answer
        return int(answer.body)


def make_tenant(admin: Client, account: str = "") -> Tenant:
    """Create an account with storlets enabled, the misbehaving storlet and an object; a new name
    unless given."""
    client = admin.on(account or f"AUTH_{unique('probe')}")
    prepare_account(client)
    assert client.put(DATA).status in (201, 202)
    tenant = Tenant(client)
    tenant.upload("gremlin.py", SOURCE.read_bytes())
    assert client.put(tenant.path, CONTENT, {"Content-Type": "text/plain"}).status == 201
    return tenant
