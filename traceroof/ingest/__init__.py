"""From paths to recordings: detect the format, decompress, read."""
