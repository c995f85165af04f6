"""A client of Spark Connect: ``… connect_query SERVER METADATA OF TO``.

It reads a log and writes its messages into another one, as one job, and prints what it has seen.
"""

import sys

from pyspark.sql import SparkSession


def main(server: str, metadata: str, of: str, to: str) -> None:
    spark = SparkSession.builder.remote(server).getOrCreate()
    source = spark.read.format("zonekeeper").options(metadata=metadata, log=of)
    frame = source.load()
    row = frame.selectExpr("count(*) AS count", "max(sequence) AS last").collect()[0]
    sys.stdout.write(f"{type(spark).__module__} {row['count']} {row['last']}\n")
    rows = frame.where("sequence % 2 = 0").select("headers", "payload", "key")
    rows.write.format("zonekeeper").options(metadata=metadata, log=to).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
