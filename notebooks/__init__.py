"""What a person opens: notebooks as percent files, and their sliders."""
