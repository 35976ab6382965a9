/**
 * How Node is started for the programs. The young generation stays small: bytes pass through buffers outside of the
 * heap, and with Node's default of 16 MiB so little garbage is made beside them that only full collections would free
 * them (bench/README.md). The old one is collected when it has grown by half: much of a call's garbage gets there
 * (doc/decisions/0016). Also in the first lines of kas.mjs and agentk.mjs, and in deploy/Containerfile.
 */
export const nodeFlags = ['--max-semi-space-size=4', '--heap-growing-percent=50']
