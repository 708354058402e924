"""The demo: simulated providers over real HTTP, the real engine, a clock that runs faster."""
