"""The default: an average over assumptions, each weighed by what the labels say of it.

`recipe`      what was tuned
`views`       rows as each assumption sees them: features of a graph, of the columns, of distances
`heads`       a posterior of the labels on the features of one view
`label_regression`  the same where classes are many
`corroboration`  what rows without labels say of the graph without label noise
`stacking`    weights by which the average foretells labels
`pooling`     what an average of probabilities loses, given back
`average`     evidence, weights, and the posterior that predicts
"""
