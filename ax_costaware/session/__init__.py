"""What a user asks of a running experiment and tells it: the session functions.

``query`` says what a trial controls and why, ``complete_trial`` records how it came out,
``report_cost`` what one that has ended has cost, ``exclude_trial`` leaves one out of everything,
``set_budget`` says that there is more or less to spend than was said,
``recommend`` says what to deploy, ``spending`` what was paid, ``save`` stores what an outage of the
database left in this process, ``should_stop`` says whether the next trial would be worth its cost,
``input_fit`` whether the inputs that are left to chance follow the laws that are assumed,
``attach_table`` attaches what was measured before, and ``add_pairs`` adds to what a strategy has
learned queries from.
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
