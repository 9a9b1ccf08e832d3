"""States and checkpoints: what the log led to at a version, written down so that nobody replays it.

`checkpointer` decides and writes, `state_writer` and `manifests` make an Avro state, `legacy` the older forms; `state_reader`
finds what can be read; `proof` reads one back and compares it with the replay it stands for; `descent` finds states that do
not belong to the versions beside them.
"""
