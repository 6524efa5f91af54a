"""The command `anydepth`, also as `python -m anydepth`."""

import sys

from anydepth.errors import ConfigError
from anydepth.extras import demand


def main() -> None:
    """Run the command line; without its packages, say how to install them."""
    try:
        demand("the command line", "typer", "rich")
    except ConfigError as error:
        sys.exit(_told(error))
    from anydepth.cli.main import main as run

    run()


def _told(error: ConfigError) -> int:
    sys.stderr.write(f"anydepth: {error}\n")
    return error.exit_code


if __name__ == "__main__":
    main()
