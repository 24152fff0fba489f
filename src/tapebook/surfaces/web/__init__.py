"""The page people keep open: NiceGUI on the application that serves the API, live.

1. `server.py` mounts the pages on an application, with the headers that keep outside text harmless, and serves them;
2. `frame.py` is what every page has: navigation, theme, the moment, and the feed that redraws what has changed;
3. one file for each group of pages reads the façade and gives `markup.py` values to show and `charts.py` lines to draw.

takes:  an open home
gives:  pages
never:  shows what the façade does not give, or lets a text of others become markup
"""
