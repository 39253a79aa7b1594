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
)
from ax_costaware.generators.tree_settings import ResolutionTreeSettings


class TreeGenerator(IndirectGenerator):
    """Chooses the next cell, among the leaves of the tree and their children."""

    settings: ResolutionTreeSettings

    def _choose(self, request: IndirectRequest, information: AcquisitionFunction) -> ChosenQuery:
        """The cell of most information per unit of cost, of those that can be paid."""
        region, tree = request.region, self.settings.tree
        with torch.no_grad():
            nats = torch.cat([information(part) for part in region.starts.unsqueeze(-2).split(256)])
        decision = tree.decide(region.cells, nats.tolist(), request.where.limit)
        reason = decision.reason
        return ChosenQuery(
            query=region.starts[decision.position],
            information=float(nats[decision.position]),
            cost=tree.cost(decision.cell.level),
            why=f"Of what there is to know about {self._subject(request.minimize)}, {reason}.",
            decision={
                "level": decision.cell.level,
                "cell": list(decision.cell.index),
                "value": decision.value,
            },
        )
