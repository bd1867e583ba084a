"""The programs and samples of the API's own documents, each of them running; one file for each document."""
