"""Traffic becomes recordings: folders, transports, the proxy, the command."""
