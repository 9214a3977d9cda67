"""The manual that a bundle carries: topics as small text files, one folder for each language.

`topics` finds and reads them, `markup` parses them, `text` and `page` show them, and `documents`
are the files that lie in a bundle's archive.
"""
