"""Operations on a table: each verb has plan() -> plan and run(plan) -> report."""
