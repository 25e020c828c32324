"""A pure library: a tenant's rules and facts about a request in, a decision out.

::

    text --parse--> RuleSet --engine.compile--> Compiled --decide(Facts)--> Decision, or Needs (facts to look up first)
                       |                            '----explain(Facts)--> which rules were considered, and why
                       '--consistency.check--> Finding, Finding, ...

``model`` and ``facts`` are the values, ``conditions`` the table of what a rule may ask about, ``parse`` (with ``text``, ``when``,
``values``, ``actions``, ``template`` and ``glob``) reads a rules object, ``engine``, ``explanation`` and ``report`` decide and tell why,
``consistency`` (with ``questions``, ``pipelines``, ``cycles``, ``solver``, ``domains``, ``intervals`` and ``automata``) finds what cannot be meant,
``example`` writes requests down, and ``reference`` is the page made of the table.

It imports nothing of Swift and nothing of the other packages, and it does no input or output beyond parsing; the import
contract in ``pyproject.toml`` keeps it so.
"""
