"""How the explorer is served: its routes, its method, and the command `tensor-reshape explore`."""
