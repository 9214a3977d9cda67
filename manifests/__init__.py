"""The bundle's formats and rules, shared by the connected and the isolated side.

Standard library only (xxhash is used when it is there), because everything here also runs on
the isolated host from the bundle's own small runtime.
"""

__version__ = "0.1.0"

#: Version of the on-media format. A reader refuses a newer one and keeps reading every older one.
FORMAT_VERSION = 1
