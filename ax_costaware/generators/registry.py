"""The generators of this package as Ax knows them: one enum for all methods.

``Generators`` of Ax is closed, so a registry of our own says which adapter, generator and
transforms go together. It is registered with Ax's stores by ``ax_costaware.storage``.
"""

from __future__ import annotations

from ax.adapter.registry import GeneratorRegistryBase, GeneratorSetup, MBM_X_trans
from ax.adapter.transforms.derelativize import Derelativize

from ax_costaware.adapter.control_set_adapter import ControlSetAdapter
from ax_costaware.adapter.feedback_adapter import FeedbackAdapter
from ax_costaware.adapter.gittins_adapter import GittinsAdapter
from ax_costaware.adapter.hide_control_set import HideControlSet
from ax_costaware.adapter.indirect_adapter import IndirectAdapter
from ax_costaware.adapter.time_feature import TimeFeature
from ax_costaware.adapter.tree_adapter import TreeAdapter
from ax_costaware.generators.control_set_generator import ControlSetGenerator
from ax_costaware.generators.feedback_generator import FeedbackGenerator
from ax_costaware.generators.gittins_generator import GittinsGenerator
from ax_costaware.generators.indirect_generator import IndirectGenerator
from ax_costaware.generators.tree_generator import TreeGenerator


class CostAwareGenerators(GeneratorRegistryBase):
    """Generators that know what a trial costs."""

    CONTROL_SETS = "CostAware_ControlSets"
    COSTLY_FEEDBACK = "CostAware_CostlyFeedback"
    GITTINS = "CostAware_Gittins"
    INDIRECT_QUERIES = "CostAware_IndirectQueries"
    RESOLUTION_TREE = "CostAware_ResolutionTree"

    @property
    def GENERATOR_KEY_TO_GENERATOR_SETUP(
        self,
    ) -> dict[str, GeneratorSetup]:
        """Adapter, generator and transforms of each member."""
        return {
            CostAwareGenerators.CONTROL_SETS.value: GeneratorSetup(
                adapter_class=ControlSetAdapter,
                generator_class=ControlSetGenerator,
                # Ax's transforms of inputs. Outcomes stay in raw units, which the rules and the
                # recommendation are in; the surrogate standardises them inside.
                transforms=[HideControlSet, *MBM_X_trans, Derelativize],
                # The node has the settings; a copy on every generator run would be large.
                not_saved_generator_kwargs=["settings"],
            ),
            CostAwareGenerators.COSTLY_FEEDBACK.value: GeneratorSetup(
                adapter_class=FeedbackAdapter,
                generator_class=FeedbackGenerator,
                # The time comes last, in its own unit.
                transforms=[*MBM_X_trans, TimeFeature, Derelativize],
                not_saved_generator_kwargs=["settings"],
            ),
            CostAwareGenerators.GITTINS.value: GeneratorSetup(
                adapter_class=GittinsAdapter,
                generator_class=GittinsGenerator,
                # Outcomes stay in raw units here, too: lambda is in them.
                transforms=[*MBM_X_trans, Derelativize],
                not_saved_generator_kwargs=["settings"],
            ),
            CostAwareGenerators.INDIRECT_QUERIES.value: GeneratorSetup(
                adapter_class=IndirectAdapter,
                generator_class=IndirectGenerator,
                transforms=[*MBM_X_trans, Derelativize],
                not_saved_generator_kwargs=["settings"],
            ),
            CostAwareGenerators.RESOLUTION_TREE.value: GeneratorSetup(
                adapter_class=TreeAdapter,
                generator_class=TreeGenerator,
                transforms=[*MBM_X_trans, Derelativize],
                not_saved_generator_kwargs=["settings"],
            ),
        }
