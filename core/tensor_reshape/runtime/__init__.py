"""The process and the machine as both sides know them: switches of the whole process, and what is of this machine."""
