"""The lab: what stands outside Headway and tests it. It may import headway; never the reverse.

simulators/   Independent models of the outside APIs: Boeing, Shopify, Etsy and Printify, with their
              own limits, call logs and seeded faults. They import no limits, policies, seats or
              change detection of Headway, so that they can judge them.
simulation/   `headway simulate`: the real engine and store in virtual time against the simulators,
              with every law checked after every event. `accounts/` is the account lane.
demo/         `headway demo`: simulators over real HTTP, the engine and the page on a fast clock.
charts/       Charts of simulated runs, as text in a terminal or as an SVG file.
conformance/  The test suite that every provider must pass.

`virtual_clock` is the clock of simulations and tests. The lab needs the extra `headway[lab]`.
"""
