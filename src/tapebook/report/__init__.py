"""Reports: stored results drawn for a terminal, a page and JSON.

takes:  results of backtests and of the demo, and the books and tapes behind them
gives:  lines, tables, HTML, CSV and JSON from the same figures
never:  computes a decision or changes a result
"""
