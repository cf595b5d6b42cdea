"""Several processes, perhaps on several machines, that train one run together.

`meeting` lets them find each other, `processes` connects JAX and exchanges small messages, `watch` ends all of them
when one is gone. A process that was never joined with others is process 0 of 1, and nothing here does anything in it.
"""
