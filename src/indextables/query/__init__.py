"""Reading rows: plan (prune, explain), tasks on workers, and ranking."""
