"""Sending control messages: every one is signed for its domain and counted."""

from __future__ import annotations

from google.protobuf.message import Message as Content

from hopline.cluster.membership.member import Traffic
from hopline.cluster.membership.ports import NetworkPort, SchemaPort
from hopline.cluster.messages.schema_declaration import declaration_of
from hopline.cluster.messages.service import REGISTER_ROUTE, service_message
from hopline.cluster.messages.service_pb2 import RegisterExternalMessageRoute, UnregisterMessageRoute
from hopline.message import Message, MessageIdentifier
from hopline.security import Security


class ControlSender:
    """Signs and sends the control messages of one node, through the rendezvous server or directly."""

    def __init__(self, security: Security, network: NetworkPort, schemas: SchemaPort, traffic: Traffic) -> None:
        self._security = security
        self._network = network
        self._schemas = schemas
        self._traffic = traffic

    def publish(self, kind: MessageIdentifier, content: Content, domain: str) -> None:
        """Publish a message to every node, signed for a domain."""
        if isinstance(content, RegisterExternalMessageRoute):
            message = self._announcement(content)
        else:
            message = service_message(kind, content)
        self._traffic.published += 1
        self._network.publish(self._security.sign_control(message, domain))

    def send(self, node: bytes, uri: str, kind: MessageIdentifier, content: Content, domain: str) -> None:
        """Send a message directly to one node, signed for a domain."""
        self._traffic.sent += 1
        message = self._security.sign_control(service_message(kind, content), domain)
        self._network.send(node, uri, message)

    def publish_routes(
        self, kind: MessageIdentifier, content: RegisterExternalMessageRoute | UnregisterMessageRoute, domain: str
    ) -> None:
        """Publish an announcement or a withdrawal, unless it names no route: the reference fails on an empty one."""
        if content.routes:
            self.publish(kind, content, domain)

    def send_announcement(
        self, node: bytes, uri: str, content: RegisterExternalMessageRoute, domain: str, *, introduces: bool
    ) -> None:
        """Send an announcement directly to one node, signed for a domain."""
        self._network.send(node, uri, self.signed_announcement(content, domain), introduces=introduces)

    def signed_announcement(self, content: RegisterExternalMessageRoute, domain: str) -> Message:
        """Return an announcement for one node, signed for a domain, and count it as sent."""
        self._traffic.sent += 1
        return self._security.sign_control(self._announcement(content), domain)

    def _announcement(self, content: RegisterExternalMessageRoute) -> Message:
        """Return an announcement that declares the formats this node reads, and the schemas of its payloads."""
        extension = declaration_of(content, self._schemas.fingerprint)
        return service_message(REGISTER_ROUTE, content).clone(extension=extension)
