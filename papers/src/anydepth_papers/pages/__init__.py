"""What is published: results, figures, and the pages of the evidence."""
