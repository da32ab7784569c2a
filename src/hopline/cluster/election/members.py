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
        self._by_name = _by_name(uris)
        if not uris or len(self._by_name) != len(uris):
            raise ArgumentError("synod.members", "one or more different URIs", list(uris))
        if normalized(uri) not in self._by_name:
            raise ArgumentError("synod.local_node", f"one of the members {list(uris)}", uri)
        self.quorum = len(uris) // 2 + 1

    def __contains__(self, uri: str) -> bool:
        return normalized(uri) in self._by_name

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def uris(self) -> list[str]:
        """The addresses, in the order of the configuration."""
        return list(self._by_name.values())

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
        moved = []
        for name, member in self._by_name.items():
            moved.append(new if name == old_name else member)
        self._by_name = _by_name(moved)


def _by_name(uris: Sequence[str]) -> dict[str, str]:
    return {normalized(member): member for member in uris}


def normalized(uri: str) -> str:
    """Return a URI in the form in which members are compared: lower case, without a slash at the end."""
    return uri.rstrip("/").lower()
