"""A pure library: rules of a tenant and facts about a request in, a decision out.

::

    text --parse--> RuleSet --engine.compile--> Compiled --decide(Facts)--> Decision or Needs
                       |                            '----explain(Facts)---> Explanation
                       '--check.consistency.check--> Finding, Finding, ...

Values
  ``model``         rules, conditions, actions and findings: frozen values
  ``facts``         the known facts of a request
  ``conditions``    the condition table: one row per fact that a rule can test
  ``evaluation``    tests of values, and three-valued logic
  ``rewriting``     conditions adapted to the kind of their rule: missing values, methods that read
  ``glob``          glob patterns
  ``intervals``     sets of integers as sorted intervals
  ``template``      ``{object}`` and the like in storlet parameters

Reading a rules object
  ``parse``         the entry point: text to ``RuleSet``, or all faults of the text
  ``text``          a safe subset of YAML as a tree of nodes with positions
  ``when``          conditions
  ``actions``       ``run``, ``deny``, ``allow`` and the options of ``run``
  ``values``        single values: strings, sizes, choices
  ``faults``        the collected faults

Deciding
  ``engine``        compiled rules and decisions
  ``index``         the rules that can match a request, by the values that they require
  ``explanation``   why a rule matches a request or does not
  ``report``        a decision in words and as JSON
  ``example``       example requests: text to facts and back

Checking and reference
  ``check``         the package of consistency checks
  ``reference``     generates the reference page from the condition table

The library imports neither Swift nor the other packages, and performs no input or output beyond
parsing. Import contracts in ``pyproject.toml`` enforce this and the layers.
"""
