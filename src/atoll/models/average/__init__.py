"""The default: an average over assumptions, each weighed by what the labels say of it.

`recipe`      what was tuned
`views`       rows as each assumption sees them: features of a graph, of the columns, of distances
`heads`       a posterior of the labels on the features of one view
`average`     evidence, weights, and the posterior that predicts
"""
