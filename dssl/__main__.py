"""`python -m dssl` is `dssl`."""

from .cli.main import main

if __name__ == "__main__":
    main(prog_name="dssl")
