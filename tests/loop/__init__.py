"""The loop: requests, tools beside the stream, results, and how it all ends."""
