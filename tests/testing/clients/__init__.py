"""The double with the clients that people use: a matrix of clients and features, each cell a test."""
