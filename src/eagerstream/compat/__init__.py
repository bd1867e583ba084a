"""The protocols of older tool libraries, on this one's executor and loop: their programs run with other import lines.

Each is a package of its own, which nothing else imports: `eagerstream.compat.anthropic_tools`, and
`eagerstream.compat.helloagents`.
"""
