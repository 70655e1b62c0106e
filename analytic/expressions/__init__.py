"""From an expression to a callable: symbols, formulas, expectations, printers and backends."""
