"""What changed between two listings, with what compilers merely name otherwise left out.

``listings.diff_listings`` pairs functions, reads each into its canonical form, compares digests,
and aligns what differs. Two listings are identical if one bijection of names for each function
makes one into the other: registers, labels, values, addresses, locations and digests in names.
"""
