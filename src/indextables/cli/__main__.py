"""`python -m indextables.cli`."""

from indextables.cli.app import main

if __name__ == "__main__":
    main()
