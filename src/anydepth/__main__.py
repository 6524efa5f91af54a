"""`python -m anydepth`."""

from anydepth.cli.main import main

main()
