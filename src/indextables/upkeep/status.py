"""The words by which a report says how an operation ended. One that fails raises instead."""

SUCCESS = "success"
NO_ACTION = "no_action"
DRY_RUN = "dry_run"
