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
from ax.exceptions.core import UnsupportedError
from ax.generators.torch_base import TorchGenResults, TorchOptConfig
from ax.utils.common.constants import Keys
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition import optimize_control_sets
from ax_costaware.adapter.hide_control_set import EXACT_VALUES
from ax_costaware.adapter.model_space import ModelSpace
from ax_costaware.generators.budget import Standing, decision_seed
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.cost_aware_generator import CostAwareGenerator, direction
from ax_costaware.models import information_gain
from ax_costaware.policies.beta import TheoreticalBeta
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
        found: dict[int, tuple[Tensor, float]] = {}
        beta = self.beta()

        def evaluate(indices: Sequence[int]) -> list[float]:
            missing = [i for i in indices if i not in found]
            if missing:
                optima = optimize_control_sets(
                    self.surrogate.model,
                    space.bounds,
                    [space.control_sets[i] for i in missing],
                    space.nodes,
                    space.weights,
                    beta,
                    acquisition=settings.acquisition,
                    num_restarts=settings.num_restarts,
                    raw_samples=settings.raw_samples,
                    product=space.product,
                    given=[space.given[i] for i in missing],
                    posterior_transform=direction(request.minimize),
                    X_pending=_pending(config),
                    discrete=space.discrete_columns(config.fixed_features or {}),
                    inequality_constraints=space.constraints,
                    fixed_features=config.fixed_features,
                    default=space.default,
                    seed=decision_seed(settings.seed, where.trial_index),
                )
                for i, point, value in zip(missing, optima.points, optima.values, strict=True):
                    found[i] = point.detach(), float(value)
            return [found[i][1] for i in indices]

        decision = settings.rule.decide(where.history(settings, request.allowed), evaluate)
        (value,) = evaluate([decision.index])
        point = found[decision.index][0]
        chosen = settings.control_sets[decision.index]
        exact = {
            **{n: v for n, v in space.nominal.items() if n not in chosen.parameters},
            **space.exact_values(point, chosen.parameters),
        }
        names = settings.names
        return TorchGenResults(
            points=point.unsqueeze(0),
            weights=torch.ones(1, dtype=point.dtype),
            candidate_metadata=[{CONTROL_SET: chosen.name, EXACT_VALUES: exact}],
            gen_metadata={
                Keys.EXPECTED_ACQF_VAL: [value],
                RECORD: {
                    "control_set": chosen.name,
                    "expected_cost": settings.cost(names[decision.index]),
                    "why": decision.reason,
                    "phase": "rule",
                    "decision": {
                        "in_play": [names[i] for i in decision.in_play],
                        "values": {names[i]: float(v) for i, v in decision.values.items()},
                        "rule": repr(settings.rule),
                        "spent": where.spent,
                        "remaining": where.remaining,
                    },
                },
            },
        )


def _pending(config: TorchOptConfig) -> Tensor | None:
    pending = config.pending_observations
    return None if not pending or not len(pending[0]) else pending[0]
