"""Labels and annotations of Volcano and Kueue: what each does here, and who is told that one does nothing.

Read `keys` first, the table; then `findings`, which judges the labels and annotations of one object by it;
then `warnings`, which makes a few short lines of that.
"""
