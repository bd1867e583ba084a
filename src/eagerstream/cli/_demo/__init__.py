"""The main job, to be watched: a poem is written into a tool's input while two other tools run beside it."""
