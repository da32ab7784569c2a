"""The pages: each reads its address, asks the tables, and fills a template."""
