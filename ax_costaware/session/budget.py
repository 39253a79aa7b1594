"""Another budget for an experiment that runs, or has stopped: ``set_budget``."""

from __future__ import annotations

from dataclasses import replace

from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.client import SessionClient, holding_lock, open_session
from ax_costaware.ax_bridge.strategy import set_method
from ax_costaware.methods.past import ROUNDING
from ax_costaware.queries.argument_checks import positive_number
from ax_costaware.session.spending import spending


@holding_lock
def set_budget(client: SessionClient, budget: float) -> None:
    """Raise or lower the budget of an experiment; the next decision is made with it.

    Decisions are those that a strategy made with this budget would make on the same trials, also
    after the old one was used up. A price of cost that is found from the budget is found anew from
    what is left, and held from then on; control sets of unknown cost are explored again where the
    share of a larger budget allows. A run that a given ``lmbda`` has stopped stops again.

    It is saved at once if the client has a database. A refused call changes nothing.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
            Its strategy has a budget.
        budget: What all trials may cost together, those of the past included; at least what is
            spent, in the unit of the costs.

    Raises:
        UserInputError: If the strategy has no budget; if ``budget`` is not a finite number > 0, is
            below what is spent, reservations for unfinished trials included, or is one that the
            strategy refuses when it is made.
        UnsupportedError: If another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    money, method = spending(client), session.method
    if money.budget is None:
        raise UserInputError(
            f"budget={budget!r}: the strategy has no budget that could be another one, and decides "
            "otherwise than one with a budget. Give the client one that has, with "
            f"client.set_generation_strategy(ax_costaware.{method.factory}(..., budget=...))."
        )
    expected = (
        f"a finite number > 0, and no less than what is spent: {money.spent:.10g} of "
        f"{money.budget:.10g}, reservations for unfinished trials included"
    )
    with ax_errors():
        number = positive_number(budget, "budget", expected)
        if number * (1 + ROUNDING) < money.spent:
            raise UserInputError(f"budget={budget!r}: expected {expected}.")
        method = replace(method, budget=number)
    set_method(session.strategy, method)
    session.save_everything()
