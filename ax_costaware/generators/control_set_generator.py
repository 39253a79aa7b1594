"""Generator that chooses a control set and values for it (UCB-CVS; Tay et al. 2023, Algorithm 1).

The surrogate is Ax's modular one. For a decision the generator maximises the expected acquisition
value of the control sets that the rule asks about, and the rule chooses. Values are in raw units
of the objective, with the sign of maximisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.exceptions.core import OptimizationShouldStop, UnsupportedError
from ax.generators.torch_base import TorchGenResults, TorchOptConfig
from ax.utils.common.constants import Keys
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.adapter.hide_control_set import EXACT_VALUES
from ax_costaware.adapter.model_space import ModelSpace
from ax_costaware.generators.budget import Standing, decision_seed
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.control_set_values import ControlSetValues
from ax_costaware.generators.cost_aware_generator import CostAwareGenerator
from ax_costaware.generators.learned_costs import ExpectedCosts
from ax_costaware.models import information_gain
from ax_costaware.policies.beta import TheoreticalBeta
from ax_costaware.policies.control_set_rules import ControlSetDecision
from ax_costaware.records import CONTROL_SET, RECORD


@dataclass(frozen=True)
class ControlSetRequest:
    """What the adapter hands to the generator for one decision."""

    space: ModelSpace
    """The control sets in the model's input space."""

    where: Standing
    """Plays and money."""

    allowed: tuple[bool, ...]
    """Which control sets the caller's fixed features leave open, in declared order."""

    minimize: bool
    """Direction of the objective."""

    costs: ExpectedCosts
    """What the control sets are expected to cost."""


class NothingAffordable(OptimizationShouldStop):
    """What is left of the budget pays for no control set at the values that are best for it."""


class ControlSetGenerator(CostAwareGenerator):
    """Chooses the control set and the values of the next trial."""

    settings: ControlSetSettings

    def gen(
        self, n: int, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> TorchGenResults:
        """Choose one control set and values for it.

        Args:
            n: Must be one: each query is a trial of its own.
            search_space_digest: The search space in the model's terms.
            torch_opt_config: Carries the ``ControlSetRequest`` among its ``model_gen_options``.
        """
        options: Mapping[str, Any] = torch_opt_config.model_gen_options
        request = options.get(RECORD)
        if not isinstance(request, ControlSetRequest) or n != 1:
            raise UnsupportedError(
                "the control-set generator makes one decision at a time, for a ControlSetAdapter."
            )
        with manual_seed(decision_seed(self.settings.seed, request.where.trial_index)):
            return self._decide(request, torch_opt_config)

    def best_point(
        self, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> Tensor | None:
        """None: the best realised point is no arm, since a trial does not control it."""
        return None

    def beta(self) -> float:
        """Weight of the standard deviation under the fitted model."""
        beta = self.settings.beta
        if isinstance(beta, TheoreticalBeta):
            gain = information_gain(self.surrogate.model)
            return float(beta(gain, len(self.settings.control_sets)))
        return beta

    def _decide(self, request: ControlSetRequest, config: TorchOptConfig) -> TorchGenResults:
        settings, space, where = self.settings, request.space, request.where
        pending, fixed = _pending(config), config.fixed_features or {}
        values = ControlSetValues(
            model=self.surrogate.model,
            evaluated=self.surrogate.Xs[0],
            settings=settings,
            request=request,
            beta=self.beta(),
            pending=pending,
            fixed=fixed,
        )
        # Bounds under what the caller fixes, as those with pending points, say nothing for later.
        is_partial = pending is not None or bool(fixed)
        decision, reason = self._choose(request, values, is_partial)
        ((point, value),) = values.found([decision.index])
        cost = values.cost_of(decision.index)
        chosen = settings.control_sets[decision.index]
        exact = {
            **{n: v for n, v in space.nominal.items() if n not in chosen.parameters},
            **space.exact_values(point, chosen.parameters),
        }
        names, costs_learned = settings.names, settings.learns_costs
        return TorchGenResults(
            points=point.unsqueeze(0),
            weights=torch.ones(1, dtype=point.dtype),
            candidate_metadata=[{CONTROL_SET: chosen.name, EXACT_VALUES: exact}],
            gen_metadata={
                Keys.EXPECTED_ACQF_VAL: [value],
                RECORD: {
                    "control_set": chosen.name,
                    "expected_cost": None if cost is None else cost.mean,
                    "why": reason,
                    "phase": "rule",
                    "decision": {
                        "in_play": [names[i] for i in decision.in_play],
                        "values": {names[i]: float(v) for i, v in decision.values.items()},
                        "rule": repr(settings.rule),
                        "problem": settings.problem_digest,
                        "spent": where.spent,
                        "remaining": where.remaining,
                        "state": dict(decision.state),
                        **({"costs": _costs(values, decision, names)} if costs_learned else {}),
                    },
                },
            },
        )

    def _choose(
        self, request: ControlSetRequest, values: ControlSetValues, is_partial: bool
    ) -> tuple[ControlSetDecision, str]:
        """The rule's decision, and its reason, among what is affordable at its best values.

        Raises:
            NothingAffordable: If no control set is.
        """
        settings, where = self.settings, request.where
        orient = getattr(settings.rule, "oriented", None)
        rule = settings.rule if orient is None else orient(request.minimize)
        allowed = list(request.allowed)
        passed_over: list[str] = []
        while True:
            history = where.history(settings, allowed, pending=is_partial)
            if not any(history.affordable):
                raise NothingAffordable(
                    f"{_named(passed_over)} expected to cost more than what is left of it at the "
                    "values that are best."
                )
            decision = rule.decide(history, values)
            cost = values.cost_of(decision.index)
            pays = settings.pays(where.remaining, None if cost is None else cost.mean)
            if pays or not history.affordable[decision.index]:
                break
            # Its average was affordable, or some of its values are.
            allowed[decision.index] = False
            passed_over.append(settings.names[decision.index])
        reason = decision.reason
        if passed_over:
            reason += (
                f" {_named(passed_over)} expected to cost more than what is left of the budget at "
                "the values that are best, and passed over."
            )
        return decision, reason


def _named(names: Sequence[str]) -> str:
    """Control sets as the beginning of a sentence about them."""
    if len(names) == 1:
        return f"Control set {names[0]!r} is"
    return f"The control sets {list(names)} are"


def _costs(
    values: ControlSetValues, decision: ControlSetDecision, names: Sequence[str]
) -> dict[str, list[float | None]]:
    """Expected costs and their standard errors of the control sets in play, as far as looked at."""
    found: dict[str, list[float | None]] = {}
    for i in decision.in_play:
        if values.is_priced(i) and (cost := values.cost_of(i)) is not None:
            found[names[i]] = [cost.mean, cost.standard_error]
    return found


def _pending(config: TorchOptConfig) -> Tensor | None:
    pending = config.pending_observations
    return None if not pending or not len(pending[0]) else pending[0]
