"""Applies the rules of accounts to requests.

``ruling``          the decision on an operation: forward, run storlets, filter, answer or refuse
``evaluation``      one operation, the rules that apply to it, and their decisions
``read_object``     the object that the operation reads, and whether the caller may see it
``write_decisions`` the decisions about objects that the operation writes
``requirements``    refusals of requests that would bypass a rule
``storlet_runs``    the storlets that rules require, as requests and a plan
``passing``         checks, pins or filters Swift's answers
``explanation``     explains the decisions of the rules
``read_guard``      evaluates the rules for every further read that Swift makes for the request
``covered_reads``   the reads of a request that the rules refuse; ``answer_check``: the answers
``audit``           audited rules: the decisions that they would make, recorded and not applied
``rule_hits``       counts the operations that each rule decides
``path_rules``      the rules of all accounts, evaluated for single reads
``request_facts``   the facts that rules test, taken from the request
``link_ends``       the object at the end of a chain of links
``segments``        evaluates the rules for the segments of a static large object
``sums``            whether a sum over objects includes covered ones
``listing``         container listings without the facts of covered objects
"""
