"""The tables while the network runs: Structured Streaming over captures, with the functions of the batch job.

Theory of operation
-------------------
Every trigger, Spark lists the segments that are new. A batch decodes them, and writes `messages` and `rejects`. What
else can be said of a message takes its whole flow, so its records wait, in a table called *pending*, until the flow is
closed; then they go through the functions of the batch job, once.

**Units.** What is closed together is a unit: a *journey*, that is a flow with all flows that its handlers began, or a
single message that belongs to no flow. A unit is closed when every node that took part has sent records that are later
than the unit's last one by the gap, or has been silent for the idle time (`closing.py`).

**Windows.** What closed units add to `handlers`, `edges`, `security` and `audit` is kept until their windows are final.
The *horizon* is the time up to which everything is closed. Windows before it are final and written once; windows behind
it are written again with every batch, and marked as provisional (`windows.py`).

**Late.** A record that comes when its flow is closed, or its window final, goes to `messages` as any other, is noted in
the table `late`, and is part of no other table until its day is settled (`arrivals.py`).

**Days.** When the horizon has left a day behind, the day is settled: the batch job's tables of that day are made of the
messages as they were written, and replace what the stream wrote (`settling.py`).

**Once, whatever happens.** Everything that batch 17 writes has the 17 in its path: the files that it adds to the tables
(`date=<day>/stream-000000017/`) and the state that it leaves to batch 18 (`_stream/state/000000017/`). Spark repeats a
batch that it did not see end, with the same segments. If batch 17 has left no state, it starts from that of batch 16
again, and what the first attempt wrote is replaced. Files are written aside and moved when all tables of the batch are
made, so that readers see them appear together. The state comes last. It names the days that are over, so that who finds
it settles them, whether or not somebody had begun to.
"""
