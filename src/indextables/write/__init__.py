"""Writing rows: plan on the driver, tasks on the workers, one commit at the end."""
