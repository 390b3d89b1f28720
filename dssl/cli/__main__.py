"""`python -m dssl.cli` is `dssl`."""

from .main import main

if __name__ == "__main__":
    main(prog_name="dssl")
