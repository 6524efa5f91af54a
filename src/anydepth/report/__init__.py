"""Reports: runs measured and shown as one-file pages; nothing here trains."""
