"""The search tools of anthropic-tools, with search services, embedders and vector stores of one's own."""
