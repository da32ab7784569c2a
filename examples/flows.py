"""Three questions to the traffic of a network: a notebook in jupytext's percent format, and a program."""

# %% [markdown]
# # Three questions to the traffic of a network
#
# A notebook for data engineers: open it in Jupyter (with jupytext) or VS Code, or run it as a program. It makes a
# capture of a small trading house with planted faults, lets the pipeline write its tables, and asks:
#
# 1. Which flows did not complete, and why?
# 2. Where does the time go?
# 3. Which messages were forged, and are the clocks right?
#
# With captures of your own, leave the first cell out and set `captures` and `tables`.

# %%
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf

from hopline.explorer.charts import clock_offsets, durations, svg, time_by_stage
from hopline.generator import Options, generate
from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.session import spark_session

home = Path(tempfile.mkdtemp(prefix="hopline-flows-"))
generate(home / "made", Options(messages=20_000, seed=11))
captures, keys, tables = home / "made/captures", home / "made/keys/hopline.toml", home / "tables"

# %% [markdown]
# A session of our own; in a notebook that has one already, that one is used. The captures can be read as they are, with
# the data source `hopline`, and the tables are plain Parquet.

# %%
opened = spark_session("local[2]", memory="1g", config={"spark.sql.shuffle.partitions": "4"})
spark = opened.__enter__()

recorded = spark.read.format("hopline").load(str(captures))
recorded.groupBy("event").count().orderBy(sf.desc("count")).show()

# %%
report = run(PipelineOptions(captures=(str(captures),), out=tables, keys=keys), spark)
print(f"{report.records:,} records = {report.messages:,} messages + {report.rejects:,} rejects")
for name in report.rows:
    spark.read.parquet(str(tables / name)).createOrReplaceTempView(name)


def ask(question: str) -> Any:
    """Ask in SQL, and give the answer as a pandas DataFrame."""
    return spark.sql(question).toPandas()


# %% [markdown]
# ## 1. Which flows did not complete, and why?

# %%
outcomes = ask("select outcome, count(*) as flows from flows group by outcome order by flows desc")
print(outcomes.to_string(index=False))

why = ask("""
    select f.outcome, m.identity, m.event, count(distinct f.flow_id) as flows
    from flows f join messages m using (flow_id)
    where f.outcome in ('failed', 'expired')
      and (m.event in ('expired', 'unroutable', 'overflow', 'hop_limit', 'failed')
           or (m.event = 'handled' and m.reason is not null))
    group by all order by flows desc
""")
print(why.to_string(index=False))

# %% [markdown]
# ## 2. Where does the time go?
#
# `critical_path` says for each flow how long each stage took; its parts sum to the duration, so that they can be added
# up over all flows without counting anything twice.

# %%
stages = ask("""
    select identity, stage.stage, sum(stage.us) / 1e6 as seconds
    from (select explode(critical_path) as stage from flows where outcome = 'complete')
    lateral view inline(array(struct(stage.identity as identity))) i
    group by all order by seconds desc
""")
largest = stages.groupby("identity")["seconds"].sum().nlargest(10).index
where_time_goes = time_by_stage(stages[stages["identity"].isin(largest)])
(home / "time.svg").write_text(svg(where_time_goes))
where_time_goes  # noqa: B018 - which a notebook shows

# %%
latencies = ask("select cast(latency_us / 1000.0 as double) as ms from callbacks where outcome = 'answered'")
how_long_callers_wait = durations(latencies)
(home / "latency.svg").write_text(svg(how_long_callers_wait))
how_long_callers_wait  # noqa: B018

# %% [markdown]
# ## 3. Which messages were forged, and are the clocks right?

# %%
offences = ask("""
    select peer, node, offence, count(*) as messages from incidents group by all order by messages desc limit 10
""")
print(offences.to_string(index=False))

skew = ask("""
    select node_a, node_b, offset_us, bound_us from skew
    where bound_us >= 0 and abs(offset_us) > bound_us order by abs(offset_us) desc
""")
print(f"{len(skew)} pairs of clocks differ by more than the error of the estimate")
# A negative bound says that the difference of two clocks changed, so that no offset fits all transits between them.
out_of_step = ask("select date, node_a, node_b, min_transit_ab_us, min_transit_ba_us from skew where bound_us < 0")
print(f"{len(out_of_step)} pairs of clocks whose difference changed")

skew["node"] = skew["node_a"].str[:8] + " / " + skew["node_b"].str[:8]
clocks_that_differ = clock_offsets(skew.head(12))
(home / "clocks.svg").write_text(svg(clocks_that_differ))
clocks_that_differ  # noqa: B018

# %% [markdown]
# Everything is in `home`: the pictures, the captures and the tables.

# %%
print(f"pictures, captures and tables are in {home}")
opened.__exit__(None, None, None)
