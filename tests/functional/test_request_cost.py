"""The cost of a small request, in calls of Python functions: a number that no machine and no load
changes.  Its limit is a promise of ``SPECIFICATION.rst``.
"""

from __future__ import annotations

from tests.bench import promises
from tests.bench.bench import Bench
from tests.bench.plan import QUICK
from tests.bench.rows import count
from tests.bench.show import Progress
from tests.bench.site import Site
from tests.support.cluster import Cluster


def test_a_small_get_through_a_storlet_calls_few_more_functions_than_a_plain_one(
    cluster: Cluster,
) -> None:
    promised = promises.read(promises.SPECIFICATION.read_text(encoding="utf-8"))
    bench = Bench(Site(cluster), QUICK, Progress(about_seconds=10))
    figures = list(count.measure(bench))
    verdicts = promises.verdicts(promised, figures)
    assert {figure.key for figure in figures} == verdicts.keys(), "each one is promised"
    missed = {
        figure.key: f"{figure.sides()}: {verdicts[figure.key].promise}; {bench.raw['count']}"
        for figure in figures
        if verdicts[figure.key].word != promises.KEPT
    }
    assert not missed
