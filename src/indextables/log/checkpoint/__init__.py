"""Checkpoints: snapshots of versions, so that readers do not replay the log.

A **checkpoint** is any such file, whatever its form. A **state** is a checkpoint in the Avro form,
which is the one that is written; the JSON and Parquet forms of older releases are **legacy
checkpoints**. A **base** is what a replay starts from: a checkpoint that was read, or nothing, for
a table that has none.

`checkpointer` decides and writes, `state_writer` and `manifests` make a state, `legacy` the older
forms; `state_reader` reads bases; `verifier` detects states that do not belong to the versions,
reads a checkpoint back and compares it with the replay.
"""
