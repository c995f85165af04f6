"""Copy a log into another one as a stream, on as many executors as there are.

spark-submit … copy_a_log.py --metadata zk://host:2181/ledgers --log orders/eu-1 --to orders/eu-2 \
    --checkpoint /checkpoints/orders

Both logs must exist. Started again with the same checkpoint, the stream goes on where it was. With
``--until-now`` it ends at the end that the log has when it starts. The three files of TLS, if there
are any, are on the driver and on every executor.
"""

import argparse

from pyspark.sql import SparkSession


def main() -> None:
    """Run until the driver is ended."""
    parser = argparse.ArgumentParser(description="copy a log into another one")
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--tls", metavar="FOLDER", help="has ca.crt, tls.crt and tls.key")
    parser.add_argument("--partitions", type=int, help="how many tasks share a micro-batch")
    parser.add_argument("--every", type=int, default=1, metavar="SECONDS")
    parser.add_argument("--until-now", action="store_true")
    given = parser.parse_args()

    cluster = {"metadata": given.metadata}
    if given.tls is not None:
        cluster |= {
            "tlsAuthority": f"{given.tls}/ca.crt",
            "tlsCertificate": f"{given.tls}/tls.crt",
            "tlsKey": f"{given.tls}/tls.key",
        }
    spark = SparkSession.builder.getOrCreate()
    source = spark.readStream.format("zonekeeper").options(**cluster).option("log", given.log)
    if given.partitions is not None:
        source = source.option("partitions", given.partitions)
    writing = (
        source.load()
        .select("key", "payload", "headers")
        .writeStream.format("zonekeeper")
        .options(**cluster)
        .option("log", given.to)
        .option("checkpointLocation", given.checkpoint)
    )
    if given.until_now:
        writing = writing.trigger(availableNow=True)
    else:
        writing = writing.trigger(processingTime=f"{given.every} seconds")
    writing.start().awaitTermination()


if __name__ == "__main__":
    main()
