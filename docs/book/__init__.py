"""The book: chapters, pages and notebooks made out of npdl's source, and checked as they are."""
