"""Contains the files of the shape explorer's page."""
