"""The status page: the answer first, then what it rests on."""
