"""Imported by sibling.py."""


def greeting():
    return "hello from the helper"
