"""The rules of an account: storage, uploads, and the switch to a new ruleset version.

``store``           the rules in force of an account, compiled and cached by ruleset version
``upload``          requests that change rules: authorization, check, response
``activation``      brings rules into force, or removes them
``versions``        the objects that hold rules: ``rules.yaml`` and all ruleset versions
``pointer``         the ruleset version in force: system metadata of the account
``validation``      checks of uploaded rules that need the account's storlets and settings
``check_process``   the process that checks rules
``parse_process``   the process that parses long rules
``upload_report``   findings as text or JSON
"""
