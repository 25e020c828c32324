"""Consistency checks of a rule set: unreachable rules, evadable mandatory rules, bad pipelines.

``consistency``   the entry point: ``check(rules, storlets)`` returns findings with examples
``mandatory``     requests that evade a mandatory rule
``changes``       requests that a new version of the rules treats in another way
``outcomes``      all outcomes that requests for an object can have
``cost``          limits of what rules cost a server that all accounts share
``traps``         single tests that do not mean what they seem to
``cycles``        rules on PUT and COPY whose results trigger each other
``pipelines``     storlets that are missing, may not be run, or do not accept their input
``questions``     satisfiability questions about a rule set, answered with a request
``solver``        the solver: facts that satisfy a set of conditions
``domains``       values of one fact that satisfy a set of tests
``automata``      regular languages: the shortest string that satisfies several tests
``budget``        the bound on the work of a check, counted in steps
"""
