"""How an account's rules come into force, and where they are kept.

``store``           the rules of an account, compiled and cached by version
``upload``          an upload of rules: checked, kept as a version, and in force at one moment
``versions``        the objects that hold rules, and each version that was ever in force
``pointer``         which version is in force: system metadata of the account
``validation``      what is wrong with rules, given the account that they are for
``check_process``   the process that checks rules, so that a large text does not hold the server
``upload_report``   the findings, as text or as JSON
"""
