"""The contenders in the network benchmark: each a module whose roles run in processes of their own."""
