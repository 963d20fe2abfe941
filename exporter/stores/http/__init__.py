"""Places asked over HTTP, and lists of JSON documents that they answer with."""
