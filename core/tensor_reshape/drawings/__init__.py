"""Draws shape queries with their answers or rejections, for notebooks, files and the explorer."""
