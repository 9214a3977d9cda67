"""Parity: what a scratched medium has lost, rebuilt from what it still has.

The files of the archive and install.sh are cut into blocks, and these laid out in ROWS equal rows,
one after another. Over each column (one block of every row) a Reed-Solomon code makes one more
block for each percent of parity. In each column any blocks, as many as there are parity rows, may
be unreadable or altered: so one hole of up to that share of the archive is survived wherever it
lies, and smaller ones as long as no column has too many.

A code mends what is known to be missing, so the digest of every block lies with the parity. Neither
is trusted: what was mended is compared with SHA256SUMS like anything else.

scheme.py is the layout, front.py its copies in each parity file, codec.py the code, shelf.py reads
damaged media, restore.py mends.
"""
