"""A report of runs as one HTML file that needs nothing else: no network, no server, no other file.

gather.py       what the files of a run say (they are data of unknown origin)
charts.py       curves with their bands, as numbers for the page
commands.py     the commands that resume, evaluate and reproduce a run
comparison.py   several runs next to each other
media.py        pictures of the agent
markup.py       HTML in which text stays text
page.py         the file
assets/         its style and its script; uPlot (MIT) draws the charts
"""

from pqn.report.html.page import write_report as write_report
