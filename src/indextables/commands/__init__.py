"""The SQL command language: text -> command value -> Table verb -> rows."""
