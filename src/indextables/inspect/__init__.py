"""Looking at a table: what its log and its splits say, the figures behind charts, and the charts."""
