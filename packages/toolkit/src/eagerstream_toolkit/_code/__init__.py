"""`CodeTool`: code of the model, which runs while it is being written."""
