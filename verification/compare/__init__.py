"""Compares the answers of this project with those of OpenVINO."""
