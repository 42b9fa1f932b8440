"""`python -m hta_engine ARGUMENTS` is `hta ARGUMENTS`, also where the program is not on the PATH."""

from ._program import main

main()
