"""The annotation of a corpus on disk: shard by shard, so that memory holds one shard."""
