"""Programs that are wrong: type checkers refuse every line that is marked, and no other one."""

from __future__ import annotations

from hopline import Actor, Context, Message, Node, Payload, Request, Retry, connect, handler
from hopline.node import CallNext, MiddlewareContext


class Greeting(Payload):
    text: str


class Farewell(Payload):
    text: str


class Greet(Request[Greeting]):
    name: str


class Meet(Request[Greeting | Farewell]):
    name: str


class Count(Request[int]):  # mistake: an answer is a payload class
    number: int


class Greeter(Actor):
    @handler
    async def meet(self, meet: Meet, context: Context) -> Greeting:
        await context.send("Hello")  # mistake: text is no payload
        await context.ask(Farewell("Ada"))  # mistake: not a request, and no callback
        farewell: Farewell = await context.ask(Greet(meet.name))  # mistake: the answer is a Greeting
        return Greeting(farewell.text)


async def main(node: Node, message: Message) -> None:
    hub = node.hub
    await hub.send(3)  # mistake: a number is no payload
    await hub.send("Greet")  # mistake: text is no payload
    await hub.send_one_way(3)  # mistake: a number is no payload
    await hub.broadcast([Greet("Ada")])  # mistake: a list is no payload
    await hub.send(Greet("Ada"), callback=int)  # mistake: no payload class
    await hub.send(Greet("Ada"), callback="Greeting")  # mistake: text is no class
    await hub.send(Greet("Ada"), callback=Greeting("Ada"))  # mistake: an instance is no class
    await hub.send(Greet("Ada"), callback=(Greeting, int))  # mistake: one of them is no payload class
    await hub.ask(message)  # mistake: a message does not say what answers it
    await hub.ask(Greeting("Ada"))  # mistake: not a request, and no callback
    await hub.ask(Greet("Ada"), partition=3)  # mistake: neither text nor bytes
    await hub.ask(Greet("Ada"), retry=3)  # mistake: a number is no Retry
    await hub.ask(Greet("Ada"), timeout="3 s")  # mistake: text is no time
    (await hub.ask(Greet("Ada"))).name  # mistake: a Greeting has no name
    (await hub.ask(Greet("Ada"), Farewell)).name  # mistake: a Farewell has no name
    greeting: Greeting = await hub.ask(Meet("Ada"))  # mistake: it may be a Farewell
    text: str = await hub.ask(Greet("Ada"), retry=Retry(attempts=2))  # mistake: the answer is a Greeting
    async for each in hub.stream(Greet("Ada")):
        each.name  # mistake: a Greeting has no name
    Greet(3)  # mistake: a name is text
    Greet("Ada").name = text  # mistake: payloads are frozen
    Retry(on=ValueError)  # mistake: a class is no tuple
    Node(greeting)  # mistake: a payload is no actor
    Node(on_dead_letter=3)  # mistake: a number cannot be called
    message.with_receiver_node(3)  # mistake: neither text nor bytes
    with connect(node=Node()) as client:
        client.ask(Greeting("Ada"))  # mistake: not a request, and no callback
        client.send(3)  # mistake: a number is no payload
        client.ask(Greet("Ada")).name  # mistake: a Greeting has no name


def not_async(context: MiddlewareContext, call_next: CallNext) -> None: ...


def no_lifespan(node: Node) -> int:
    return 1


class Deaf(Actor):
    def on_start(self, node: Node) -> None: ...  # mistake: not async


Node(middleware=[not_async])  # mistake: middleware is async
Node(lifespan=no_lifespan)  # mistake: a number is no context manager
