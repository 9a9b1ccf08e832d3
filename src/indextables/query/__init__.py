"""Reading rows: plan (prune, explain), tasks on the workers, the best k by score."""
