"""Generator that chooses the cell of a resolution tree whose mean tells most per unit of cost.

CMETS of Zhang et al. 2024, "Indirect Query Bayesian Optimization with
Integrated Feedback", Algorithm 1. The tree has no state: its leaves follow from the trials.
"""

from __future__ import annotations

import torch
from botorch.acquisition.acquisition import AcquisitionFunction

from ax_costaware.generators.indirect_generator import (
    ChosenQuery,
    IndirectGenerator,
    IndirectRequest,
    subject_of,
)
from ax_costaware.generators.tree_settings import ResolutionTreeSettings

_MOST_AT_ONCE = 4096
"""Cells that are scored together."""


class TreeGenerator(IndirectGenerator):
    """Chooses the next cell, among the leaves of the tree and their children."""

    settings: ResolutionTreeSettings

    def _choose(self, request: IndirectRequest, information: AcquisitionFunction) -> ChosenQuery:
        """The cell of most information per unit of cost, of those that can be paid."""
        region, tree = request.region, self.settings.tree
        with torch.no_grad():
            parts = region.starts.unsqueeze(-2).split(_MOST_AT_ONCE)
            nats = torch.cat([information(part) for part in parts])
            values, tells = nats, bool((nats > 0).any())
            if not tells:  # to rounding, where every sampled optimum is far beyond all means
                known = self.posterior(request.minimize, request.X_pending)
                values = known.moments(region.starts)[1]
        decision = tree.decide(region.cells, values.tolist(), request.where.limit)
        subject = subject_of(information, request.minimize)
        why = f"Of what there is to know about {subject}, {decision.reason}."
        if not tells:
            why = (
                f"No cell is expected to tell anything about {subject}, to rounding; this one of"
                f" level {decision.cell.level} is known least, per unit of cost."
            )
        return ChosenQuery(
            query=region.starts[decision.position],
            information=float(nats[decision.position]),
            cost=tree.cost(decision.cell.level),
            why=why,
            decision={
                "level": decision.cell.level,
                "cell": list(decision.cell.index),
                "value": decision.value,
            },
        )
