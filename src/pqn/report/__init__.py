"""What comes after training: statistics over seeds and tasks, and figures of them."""
