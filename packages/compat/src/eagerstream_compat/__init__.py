"""Older tool libraries' protocols on this library's executor and loop: their programs run with other import lines.

Each protocol is a package of its own, and no other room imports it: `eagerstream_compat.anthropic_tools` and
`eagerstream_compat.helloagents`.
"""
