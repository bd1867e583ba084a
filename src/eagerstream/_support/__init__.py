"""General helpers outside the purpose of the library, for all rooms. They import nothing from it."""
