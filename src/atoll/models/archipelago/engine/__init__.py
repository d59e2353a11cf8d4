"""Archipelago at scale: sparse functions, a bound, and an ascent that starts from a graph.

prior: as in the exact model, the functions known through m inducing values.
likelihood: with the rejections summed out, which leaves Z to the power of minus the number of rows.
inference: natural gradients on mini-batches, in JAX (extra `scale`), on a CPU or a GPU.

`start` finds what the ascent begins with, `schedule` how it goes on, `sparse` and `objective` are
the model, `ascent` climbs, `fitting` puts them together. `posterior` needs no JAX.
"""
