"""Consistency checks of a rule set: rules that can never match, gaps in mandatory rules, pipelines that cannot work.

``consistency``   the entry point: ``check(rules, storlets)`` returns findings, each with an example request
``cycles``        rules that re-trigger one another
``pipelines``     storlets that are missing, may not be run, or cannot read their input
``questions``     satisfiability questions about a rule set, answered with an example request
``solver``        the solver: facts that satisfy a set of conditions
``domains``       values of one fact that satisfy a set of tests
``automata``      regular languages: the shortest string that several tests of a string accept
``budget``        the bound on the work of a check, counted in steps
"""
