"""What people and programs may ask of Headway: one module per noun, one function per operation."""
