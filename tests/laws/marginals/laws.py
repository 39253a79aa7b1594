"""Marginals of every kind, for the tests of what all of them promise."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from ax_costaware.laws import Discrete, Empirical, Learned, Marginal, TruncatedNormal, Uniform

LAWS: tuple[Marginal, ...] = (
    Uniform(-2.0, 3.0),
    Uniform(1e6, 1e6 + 1e-3),
    TruncatedNormal(0.5, 0.2, 0.0, 1.0),
    TruncatedNormal(-1.0, 0.5, 0.0, 4.0),
    TruncatedNormal(6.0, 0.5, 0.0, 4.0),
    Discrete((3, 1, 10), (0.5, 0.25, 0.25)),
    Discrete((0.5, -1.5)),
    Discrete((7,)),
    Discrete(("clay", "loam", "sand"), (0.2, 0.5, 0.3)),
    Discrete((False, True), (0.9, 0.1)),
    Empirical((2.0, -1.0, 2.0, 0.5)),
    Empirical(tuple((i * 0.618033988749895) % 1.0 for i in range(200))),
    Learned(Uniform(-2.0, 3.0), 5.0),
    Learned(TruncatedNormal(0.5, 0.2, 0.0, 1.0), 2.5, (0.25, 0.25, 0.75)),
    Learned(Empirical((2.0, -1.0, 2.0, 0.5)), 3.0, (0.5, 4.0)),
)

NUMERIC_LAWS = tuple(law for law in LAWS if law.is_numeric)

each_law = pytest.mark.parametrize("law", LAWS, ids=repr)
each_numeric_law = pytest.mark.parametrize("law", NUMERIC_LAWS, ids=repr)

numbers = st.floats(-100, 100).map(lambda x: round(x, 3))


@st.composite
def truncated_normals(draw: st.DrawFn) -> TruncatedNormal:
    """Laws whose mean lies up to a thousand standard deviations outside the interval."""
    lower = draw(numbers)
    width = draw(st.floats(0.01, 100))
    std = width * 10.0 ** draw(st.floats(-3, 4))
    mean = lower + width / 2 + draw(st.floats(-1, 1)) * (width / 2 + 1000 * std)
    return TruncatedNormal(mean, std, lower, lower + width)


@st.composite
def discretes(draw: st.DrawFn) -> Discrete:
    """Laws on integers, decimals, strings or booleans, some of probability zero."""
    values = draw(
        st.one_of(
            st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True),
            st.lists(numbers, min_size=1, max_size=6, unique=True),
            st.lists(st.text(max_size=3), min_size=1, max_size=6, unique=True),
            st.just([True, False]),
        )
    )
    shares = draw(st.lists(st.integers(0, 5), min_size=len(values), max_size=len(values)))
    total = sum(shares)
    return Discrete(values, [share / total for share in shares] if total else None)


empiricals = st.lists(numbers, min_size=1, max_size=40).map(Empirical)
uniforms = st.tuples(numbers, st.floats(0.01, 100)).map(lambda p: Uniform(p[0], p[0] + p[1]))
marginals: st.SearchStrategy[Marginal] = st.one_of(
    uniforms, truncated_normals(), discretes(), empiricals
)
