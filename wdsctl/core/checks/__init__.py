"""What `validate` looks at in one shard, one level a file. Bytes and rules in, findings out; nothing is written."""
