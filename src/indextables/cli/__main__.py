"""`python -m indextables.cli`."""

from indextables.cli.start import main

if __name__ == "__main__":
    main()
