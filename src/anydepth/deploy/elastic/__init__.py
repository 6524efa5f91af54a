"""One file for every number of steps: the steps are an input of the graph, which makes the weights of each itself."""
