"""Random rule sets for the small worlds, and the storlets that they run."""

from __future__ import annotations

from hypothesis import strategies as st

from rules.check.pipelines import StorletFacts
from rules.model import Allow, Any, Deny, Operator, Place, Rule, RuleSet, Run, Step, Test
from rules.rewriting import cautious
from tests.unit.rules.small_world import World

TYPES = ("text/a", "text/b", "image/a")
_READERS = Any((Test("anonymous", Operator.IS, operand=True), Test("user", Operator.EXACT, "a")))
STORLETS = {
    "a-to-b": StorletFacts("a-to-b", input_types=("text/a",), output_type="text/b"),
    "b-to-a": StorletFacts("b-to-a", input_types=("text/*",), output_type="text/a"),
    "to-image": StorletFacts("to-image", output_type="image/a"),
    "mine": StorletFacts("mine", may_run=_READERS),
}
_ACTIONS = st.sampled_from([Allow(), Deny("no"), *(Run((Step(name),)) for name in STORLETS)])


@st.composite
def rule_sets(draw: st.DrawFn, world: World, most: int = 4) -> RuleSet:
    rules = []
    for number in range(draw(st.integers(1, most))):
        action = draw(_ACTIONS)
        is_mandatory = not isinstance(action, Allow) and draw(st.booleans())
        condition = draw(world.conditions)
        if not is_mandatory and not isinstance(action, Deny):
            condition = cautious(condition)  # as the parser does
        rules.append(
            Rule(f"r{number}", condition, action, is_mandatory, place=Place(number + 1, 1))
        )
    return RuleSet(tuple(rules))
