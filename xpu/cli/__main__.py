"""``python -m xpu.cli``, for a shell in which the script is not on the path."""

from xpu.cli import main

if __name__ == "__main__":
    main()
