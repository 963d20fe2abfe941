"""The drill: the small stack, played against the configured stores, with one hop broken.

``run`` plays it and compares what the exporter sees with what really happened.
"""
