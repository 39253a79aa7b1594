"""Session functions: queries and reports on a running experiment.

- ``query``: what a trial controls, and why
- ``complete_trial``: record the outcome of a trial
- ``report_cost``: record the cost of a trial that has ended
- ``exclude_trial``: remove a trial from learning and from the account
- ``recommend``: what to deploy
- ``should_stop``: test if the next trial is worth its cost
- ``spending``, ``set_budget``: read the account, change the budget
- ``input_fit``: test uncontrolled inputs against their assumed distributions
- ``attach_table``: attach earlier trials
- ``add_pairs``: add training data of a learned conditional
- ``save``: store what a database outage left in this process
"""

from ax_costaware.ax_bridge.client import SessionClient
from ax_costaware.session.completion import complete_trial, exclude_trial, report_cost, save
from ax_costaware.session.input_fit import InputFitReport, input_fit
from ax_costaware.session.pairs import add_pairs
from ax_costaware.session.query import Candidate, Query, query
from ax_costaware.session.realized import OutOfBoundsWarning
from ax_costaware.session.recommendation import Recommendation, recommend
from ax_costaware.session.should_stop import StopAssessment, should_stop
from ax_costaware.session.spending import Spending, set_budget, spending
from ax_costaware.session.table import attach_table

__all__ = [
    "Candidate",
    "InputFitReport",
    "OutOfBoundsWarning",
    "Query",
    "Recommendation",
    "SessionClient",
    "Spending",
    "StopAssessment",
    "add_pairs",
    "attach_table",
    "complete_trial",
    "exclude_trial",
    "input_fit",
    "query",
    "recommend",
    "report_cost",
    "save",
    "set_budget",
    "should_stop",
    "spending",
]
