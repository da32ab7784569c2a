"""The configured members of a synod."""

from __future__ import annotations

from collections.abc import Sequence

from hopline.message import ArgumentError


class Members:
    """The members of a synod, the only ones that may vote. Their number determines the quorum.

    Args:
        uri: The address of the local member.
        uris: The addresses of all members.

    Raises:
        ArgumentError: There is no member, one is listed twice, or the local one is missing.
    """

    def __init__(self, uri: str, uris: Sequence[str]) -> None:
        configured = list(uris)
        count = len(configured)
        self._by_name = _by_name(configured)
        are_distinct = len(self._by_name) == count
        if not configured or not are_distinct:
            raise ArgumentError("synod.members", "one or more different URIs", configured)
        if uri not in self:
            raise ArgumentError("synod.local_node", f"one of the members {configured}", uri)
        self.quorum = count // 2 + 1

    def __contains__(self, uri: str) -> bool:
        return normalized(uri) in self._by_name

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def uris(self) -> list[str]:
        """The addresses, in the order of the configuration."""
        uris = self._by_name.values()
        return list(uris)

    def move(self, old: str, new: str) -> None:
        """Replace the address of a member. The number of members, and so the quorum, stays.

        Raises:
            ArgumentError: `old` is not a member, or `new` is the address of another one.
        """
        old_name = normalized(old)
        new_name = normalized(new)
        is_member = old_name in self._by_name
        is_taken = new_name in self._by_name and new_name != old_name
        if is_taken or not is_member:
            raise ArgumentError("synod.members", f"a member that moves to an address of its own, not {old}", new)
        uris = self.uris
        position = list(self._by_name).index(old_name)
        uris[position] = new
        self._by_name = _by_name(uris)


def _by_name(uris: Sequence[str]) -> dict[str, str]:
    return {normalized(member): member for member in uris}


def normalized(uri: str) -> str:
    """Return a URI in the form in which members are compared: lower case, without a slash at the end."""
    return uri.rstrip("/").lower()
