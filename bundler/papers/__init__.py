"""What a security officer, a lawyer and an operator read before they let a bundle in.

All of it is made from the bytes that are really in the bundle: `bill` says what those are,
`gathering` finds it out, and every paper is a function of the bill.
"""
